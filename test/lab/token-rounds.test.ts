import { describe, expect, it } from "vitest";
import { SOAK } from "../fixtures/soak.ts";
import { explore, type Scope } from "./token-rounds.ts";

const TWO_OF_THREE: Scope = {
  quorum: 2,
  counters: [0, 0, 0],
  clients: 2,
  rounds: 1,
  repeats: 0,
  forgets: 0,
};

describe("token rounds of 2 clients over 3 servers, in every order", () => {
  it("tokens are unique and follow real time, whatever is late, lost or over", () => {
    const { violation, states, grants } = explore(TWO_OF_THREE);
    expect(violation).toBeNull();
    // Not vacuous: a bound on time or on steps would make it smaller.
    expect(states).toBeGreaterThan(20_000);
    expect(grants).toBeGreaterThan(5000);
  });

  it("the largest number alone, without the write-back, is found to be no token", () => {
    const naive = explore({ ...TWO_OF_THREE, counters: [0, 0, 2], fault: "no write-back" });
    expect(naive.violation?.length).toBeGreaterThan(5);
  });

  it("a quorum of all three survives a server that forgets", () => {
    const { violation, grants } = explore({ ...TWO_OF_THREE, quorum: 3, forgets: 1 });
    expect(violation).toBeNull();
    expect(grants).toBeGreaterThan(100);
  });

  // Minutes: servers that begin apart, packets that arrive twice.
  if (!SOAK) return;
  it("a majority of three survives no server that forgets: the search finds how", () => {
    const { violation } = explore({ ...TWO_OF_THREE, counters: [0, 0, 2], forgets: 1 });
    expect(violation?.some((step) => step.endsWith("forgets"))).toBe(true);
  });

  it.each([
    [[0, 0, 2], 0],
    [[0, 1, 3], 0],
    [[0, 0, 0], 1],
  ] as const)("likewise from counters %j with %d repeated packets", (counters, repeats) => {
    const { violation } = explore({ ...TWO_OF_THREE, counters, repeats });
    expect(violation).toBeNull();
  });
});
