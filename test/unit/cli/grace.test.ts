import fc from "fast-check";
import { expect, it } from "vitest";
import { planGrace } from "../../../src/cli/grace.ts";

const terms = { ttlMs: 30_000, graceMs: undefined, lockDelayMs: 0 };

it("takes a third of the ttl, at most 5 s, and adds a reserve", () => {
  expect(planGrace(terms)).toEqual({ graceMs: 5000, leadMs: 5250 });
  expect(planGrace({ ...terms, ttlMs: 1000 })).toEqual({ graceMs: 333, leadMs: 433 });
});

it("uses the whole ttl when the lock-delay covers grace and reserve", () => {
  expect(planGrace({ ...terms, lockDelayMs: 5250 })).toEqual({ graceMs: 5000, leadMs: 0 });
  expect(planGrace({ ...terms, lockDelayMs: 5249 })).toEqual({ graceMs: 5000, leadMs: 5250 });
});

it("refuses a grace that leaves no time for a renewal, and says what to change", () => {
  expect(() => planGrace({ ...terms, ttlMs: 3000, graceMs: 5000 })).toThrow(
    "A grace of 5 s does not fit a ttl of 3 s: the command must have ended before the lease does, and a renewal must be possible before that. Use --grace 1570ms or less, or --ttl 8400ms or more, or --lock-delay 5250ms or more.",
  );
});

it("advises what is accepted, and nothing below it", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 100, max: 600_000 }),
      fc.integer({ min: 0, max: 120_000 }),
      (ttlMs, graceMs) => {
        let message = "";
        try {
          planGrace({ ttlMs, graceMs, lockDelayMs: 0 });
        } catch (error) {
          message = (error as Error).message;
        }
        const advised = (option: string): number | undefined => {
          const [, count, unit = ""] =
            new RegExp(`--${option} (\\d+)(ms|s|m|h)\\b`).exec(message) ?? [];
          const size = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[unit];
          return count === undefined ? undefined : Number(count) * (size ?? NaN);
        };
        const [grace, ttl, delay] = [advised("grace"), advised("ttl"), advised("lock-delay")];
        if (grace !== undefined) {
          planGrace({ ttlMs, graceMs: grace, lockDelayMs: 0 });
          expect(() => planGrace({ ttlMs, graceMs: grace + 1, lockDelayMs: 0 })).toThrow();
        }
        if (ttl !== undefined) planGrace({ ttlMs: ttl, graceMs, lockDelayMs: 0 });
        if (delay !== undefined) planGrace({ ttlMs, graceMs, lockDelayMs: delay });
      },
    ),
    { seed: 881, numRuns: 300 },
  );
});
