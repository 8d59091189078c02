import { describe, expect, it } from "vitest";
import {
  CHECKERS,
  type CheckOptions,
  checkAll,
  PROPERTIES,
  type Verdict,
} from "../../src/lab/checkers/index.ts";
import { History, type NewEv } from "../../src/lab/history.ts";
import { cleanHistory, rndOf, TTL } from "./clean-history.ts";
import { MUTATORS } from "./mutators.ts";
import { handedOnAndLapsed } from "./scenes.ts";

const soak = process.env["RINGFENCE_SOAK"] === "1";
const HISTORIES = soak ? 100_000 : 800;
const MUTANTS = soak ? 20_000 : 80;
const OPTIONS: CheckOptions = { maxHoldNs: 60 * TTL };

/** Violations, as sentences. */
function broken(verdicts: readonly Verdict[]): string[] {
  return verdicts
    .filter(({ verdict }) => verdict !== true)
    .map(
      ({ property, violations, reasons }) =>
        `${property}: ${violations[0]?.sentence ?? reasons[0]}`,
    );
}

function recorded(events: readonly NewEv[]): History {
  const history = new History();
  for (const event of events) history.append({ ...event });
  return history;
}

describe("the checkers", () => {
  it(`find nothing wrong with ${HISTORIES} clean random histories`, { timeout: 600_000 }, () => {
    const judged = new Map<string, number>();
    for (let seed = 1; seed <= HISTORIES; seed += 1) {
      const { events, late } = cleanHistory(seed);
      const verdicts = checkAll(events, OPTIONS).filter(
        ({ property }) => !late || property !== "P2",
      );
      expect(broken(verdicts), `seed ${seed}`).toEqual([]);
      for (const { property, judged: n } of verdicts)
        judged.set(property, (judged.get(property) ?? 0) + n);
    }
    // None of them held only because there was nothing to judge.
    for (const property of PROPERTIES)
      expect([property, judged.get(property)]).not.toEqual([property, 0]);
  });

  describe("catch every falsified history:", () => {
    for (const { name, caughtBy, mutate } of MUTATORS)
      it(`${caughtBy}: ${name}`, { timeout: 600_000 }, () => {
        let [applied, caught] = [0, 0];
        const expect1 = caughtBy === "P16" ? { expect: { "fault.pause": 1 } } : {};
        // Some falsifications fit few histories.
        for (let seed = 1; seed <= MUTANTS * 10 && applied < MUTANTS / 2; seed += 1) {
          const { events, late } = cleanHistory(seed);
          if (late && caughtBy === "P2") continue;
          const mutant = mutate(events, rndOf(seed + 7));
          if (mutant === undefined) continue;
          applied += 1;
          const verdict = CHECKERS[caughtBy].check(recorded(mutant), { ...OPTIONS, ...expect1 });
          if (verdict.verdict !== true) caught += 1;
          else if (!soak) expect.soft(verdict, `seed ${seed}`).toBe("caught");
          for (const { witness, sentence } of verdict.violations) {
            expect(witness.length).toBeGreaterThan(0);
            expect(witness.length).toBeLessThanOrEqual(6);
            expect(sentence).not.toMatch(/undefined|NaN/);
          }
        }
        expect(applied).toBeGreaterThan(MUTANTS / 10);
        expect(caught).toBe(applied);
      });
  });
});

it("P12 counts a lease that was handed on from its record's last renewal, not from when its caller asked", () => {
  const verdict = (grantedS: number) => CHECKERS.P12.check(handedOnAndLapsed(grantedS), OPTIONS);
  expect(verdict(10.2)).toMatchObject({ verdict: true, judged: 3 });
  expect(verdict(9.9).violations[0]?.sentence).toMatch(/B \(35\) was granted "stock" by 9.9 s/);
});
