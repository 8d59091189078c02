import { describe, expect, it } from "vitest";
import { size } from "../fixtures/soak.ts";
import { type Plan, runSchedule } from "./token-schedules.ts";

const RUNS = size(400, 60_000);

function run(plan: Plan, runs = RUNS): { readonly grants: number; readonly bad: number } {
  let [grants, bad] = [0, 0];
  for (let seed = 1; seed <= runs; seed += 1) {
    const outcome = runSchedule(seed, plan);
    grants += outcome.grants;
    if (outcome.duplicates + outcome.inversions > 0) bad += 1;
  }
  console.log(`${JSON.stringify(plan)}: ${runs} schedules, ${grants} grants, ${bad} bad`);
  return { grants, bad };
}

const THREE_OF_FIVE: Plan = { servers: 5, quorum: 3, clients: 3, forgets: 0 };

describe("Redlock token schedules", () => {
  it("three of five: tokens are unique and follow real time", () => {
    const { grants, bad } = run(THREE_OF_FIVE);
    expect(bad).toBe(0);
    expect(grants).toBeGreaterThan(RUNS);
  });

  it("two of three, four clients: likewise", () => {
    expect(run({ servers: 3, quorum: 2, clients: 4, forgets: 0 }).bad).toBe(0);
  });

  it("four of five survive two servers that forget", () => {
    const { grants, bad } = run({ ...THREE_OF_FIVE, quorum: 4, forgets: 2 });
    expect(bad).toBe(0);
    expect(grants).toBeGreaterThan(RUNS / 4);
  });

  it("three of five do not survive one that forgets", () => {
    // Rare: one schedule in a few hundred.
    expect(run({ ...THREE_OF_FIVE, forgets: 1 }, Math.max(RUNS, 3000)).bad).toBeGreaterThan(0);
  });

  it("the largest number without the write-back is no token", () => {
    expect(run({ ...THREE_OF_FIVE, naive: true }).bad).toBeGreaterThan(RUNS / 20);
  });
});
