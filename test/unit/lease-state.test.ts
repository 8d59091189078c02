import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FRESH, type LeaseInput, type Phase, step } from "../../src/core/lease-state.ts";

const inputs = fc.array(
  fc.oneof(
    fc.constantFrom<LeaseInput>(
      { kind: "renewed" },
      { kind: "deadline" },
      { kind: "release" },
      { kind: "confirmed" },
      { kind: "export" },
    ),
    fc.boolean().map((answered): LeaseInput => ({ kind: "doubt", answered })),
    fc
      .constantFrom("taken", "revoked", "expired", "max-hold" as const)
      .map((reason): LeaseInput => ({ kind: "gone", reason })),
  ),
  { maxLength: 12 },
);

function run(list: readonly LeaseInput[]): { phases: Phase[]; outputs: (string | null)[] } {
  const phases: Phase[] = [FRESH];
  const outputs: (string | null)[] = [];
  for (const input of list) {
    const { phase, output } = step(phases.at(-1) ?? FRESH, input);
    phases.push(phase);
    outputs.push(output);
  }
  return { phases, outputs };
}

describe("the lease's state machine", () => {
  it("tells a loss at most once, and never leaves lost or exported again", () => {
    fc.assert(
      fc.property(inputs, (list) => {
        const { phases, outputs } = run(list);
        expect(outputs.filter((output) => output === "lost").length).toBeLessThanOrEqual(1);
        const end = phases.findIndex(({ state }) => state === "lost" || state === "exported");
        if (end >= 0) for (const phase of phases.slice(end)) expect(phase).toEqual(phases[end]);
      }),
    );
  });

  it("pairs each safe with a jeopardy before it", () => {
    fc.assert(
      fc.property(inputs, (list) => {
        let doubts = 0;
        for (const output of run(list).outputs) {
          if (output === "jeopardy") doubts += 1;
          if (output === "safe") doubts -= 1;
          expect(doubts === 0 || doubts === 1).toBe(true);
        }
      }),
    );
  });

  it("ignores what a late renewal says after the release", () => {
    const { phases, outputs } = run([
      { kind: "release" },
      { kind: "confirmed" },
      { kind: "gone", reason: "taken" },
      { kind: "deadline" },
    ]);
    expect(phases.at(-1)).toEqual({ state: "released", confirmed: true });
    expect(outputs).toEqual([null, null, null, null]);
  });

  it("turns a release that finds the record gone into a loss", () => {
    const { phases, outputs } = run([{ kind: "release" }, { kind: "gone", reason: "taken" }]);
    expect(phases.at(-1)).toEqual({ state: "lost", reason: "taken" });
    expect(outputs).toEqual([null, "lost"]);
  });

  it("says unreachable only when nobody answered the last time, else expired", () => {
    const reason = (list: LeaseInput[]): unknown => {
      const phase = run([...list, { kind: "deadline" }]).phases.at(-1);
      return phase?.state === "lost" ? phase.reason : null;
    };
    expect(reason([])).toBe("expired");
    expect(reason([{ kind: "doubt", answered: false }])).toBe("unreachable");
    expect(reason([{ kind: "doubt", answered: true }])).toBe("expired");
    expect(
      reason([
        { kind: "doubt", answered: true },
        { kind: "doubt", answered: false },
      ]),
    ).toBe("unreachable");
    expect(reason([{ kind: "doubt", answered: false }, { kind: "renewed" }])).toBe("expired");
  });
});
