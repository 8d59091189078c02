import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GuardScopeError, InvalidArgumentError, StaleTokenError } from "../../src/core/errors.ts";
import type { Claim } from "../../src/core/guard.ts";
import { resourceList } from "../../src/core/guard.ts";
import {
  checkAdoption,
  decideAdoption,
  decideClaim,
  decideVerify,
  purgeTime,
} from "../../src/core/guard-decision.ts";

const SCOPE = "s".repeat(27);
const OTHER = "o".repeat(27);
const claimOf = (token: bigint, grantId = "g", scope = SCOPE): Claim => ({ token, grantId, scope });

/** Few values, so that ties are common. */
const anyClaim = fc.record({
  token: fc.bigInt({ min: 1n, max: 5n }),
  grantId: fc.constantFrom("a", "b", "c"),
  scope: fc.constant(SCOPE),
});

const passes = (decide: () => void): boolean => {
  try {
    decide();
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(StaleTokenError);
    return false;
  }
};

describe("decideClaim", () => {
  it("passes exactly when the token rises, or is the same grant's again", () => {
    fc.assert(
      fc.property(anyClaim, anyClaim, (entry, claim) => {
        const rises = claim.token > entry.token;
        const again = claim.token === entry.token && claim.grantId === entry.grantId;
        const passed = passes(() => {
          decideClaim("r", { entry, floor: 0n }, claim);
        });
        expect(passed).toBe(rises || again);
      }),
    );
  });

  it("lets no pair come back once another one replaced it, in any sequence of claims", () => {
    fc.assert(
      fc.property(fc.array(anyClaim, { maxLength: 30 }), (claims) => {
        let entry: Claim | null = null;
        const left = new Set<string>();
        for (const claim of claims) {
          const before: Claim | null = entry;
          if (
            !passes(() => {
              decideClaim("r", { entry: before, floor: 0n }, claim);
            })
          )
            continue;
          const key = (of: Claim): string => `${of.token.toString()} ${of.grantId}`;
          expect(left.has(key(claim))).toBe(false);
          if (before !== null && key(before) !== key(claim)) left.add(key(before));
          entry = claim;
        }
      }),
    );
  });

  it("holds a missing entry, and only a missing one, to the floor", () => {
    const stale = (entry: Claim | null, token: bigint): boolean =>
      !passes(() => {
        decideClaim("r", { entry, floor: 50n }, claimOf(token));
      });
    expect(stale(null, 50n)).toBe(true);
    expect(stale(null, 51n)).toBe(false);
    expect(stale(claimOf(10n, "other"), 11n)).toBe(false);
  });

  it("calls another scope another scope, before it looks at numbers", () => {
    for (const token of [1n, 10n, 11n])
      expect(() => {
        decideClaim("r", { entry: claimOf(10n), floor: 0n }, claimOf(token, "g", OTHER));
      }).toThrow(GuardScopeError);
  });

  it("says what it refused and by what", () => {
    const refusal = (entry: Claim | null, floor: bigint): unknown => {
      try {
        decideClaim("r", { entry, floor }, claimOf(3n));
        return null;
      } catch (error) {
        return error;
      }
    };
    const facts = { resource: "r", presented: 3n, step: "claim" };
    expect(refusal(claimOf(9n), 99n)).toMatchObject({ ...facts, highest: 9n });
    expect(refusal(null, 7n)).toMatchObject({ ...facts, highest: 7n });
  });
});

describe("decideVerify", () => {
  it("passes only for the stored pair", () => {
    fc.assert(
      fc.property(fc.option(anyClaim), anyClaim, (entry, claim) => {
        const mine = entry?.token === claim.token && entry.grantId === claim.grantId;
        expect(
          passes(() => {
            decideVerify("r", entry, claim);
          }),
        ).toBe(mine);
      }),
    );
  });

  it("calls another scope another scope, even with the stored pair", () => {
    expect(() => {
      decideVerify("r", claimOf(10n), claimOf(10n, "g", OTHER));
    }).toThrow(GuardScopeError);
  });
});

describe("decideAdoption", () => {
  const move = { from: SCOPE, to: OTHER, floor: 4n };

  it("gives the entry to nobody, at the floor or what the scope had reached before", () => {
    const fresh = { token: 4n, grantId: "", scope: OTHER };
    expect(decideAdoption("r", { entry: claimOf(1000n), floor: 0n }, move)).toEqual({
      entry: fresh,
      leftFloor: 1000n,
    });
    expect(decideAdoption("r", { entry: claimOf(1000n), floor: 9n }, move)?.entry.token).toBe(9n);
    expect(decideAdoption("r", { entry: null, floor: 0n }, move)).toEqual({
      entry: fresh,
      leftFloor: 0n,
    });
  });

  it("changes nothing when it was done, unless the floor is to be higher", () => {
    const entry = claimOf(7n, "g", OTHER);
    expect(decideAdoption("r", { entry, floor: 0n }, move)).toBeNull();
    expect(decideAdoption("r", { entry, floor: 0n }, { ...move, floor: 8n })?.entry.token).toBe(8n);
  });

  it("refuses a third scope, and arguments that cannot be", () => {
    const entry = claimOf(7n, "g", "t".repeat(27));
    expect(() => decideAdoption("r", { entry, floor: 0n }, move)).toThrow(GuardScopeError);
    for (const bad of [{ to: SCOPE }, { from: "x" }, { floor: -1n }, { floor: 2n ** 62n - 1n }])
      expect(() => {
        checkAdoption({ ...move, ...bad });
      }).toThrow(InvalidArgumentError);
    expect(() => purgeTime("yesterday" as unknown as Date)).toThrow(InvalidArgumentError);
  });
});

describe("resourceList", () => {
  it("gives one order without repeats, whatever order was given", () => {
    expect(resourceList(["b", "a/2", "b", "a"])).toEqual(["a", "a/2", "b"]);
    expect(resourceList("a")).toEqual(["a"]);
  });

  it("refuses what is no list of resources", () => {
    for (const bad of [[], "", ["a", ""], 7, null, undefined, [7]])
      expect(() => resourceList(bad as string[])).toThrow(InvalidArgumentError);
  });
});
