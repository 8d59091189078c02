import { describe, expect, it } from "vitest";
import { GuardScopeError, StaleTokenError } from "../../src/core/errors.ts";
import { MAX_TOKEN } from "../../src/core/fencing-token.ts";
import { type Claim, type Credential, presentationOf } from "../../src/core/guard.ts";
import { decideAdoption, decideClaim, decideVerify } from "../../src/core/guard-decision.ts";
import { memoryGuard } from "../../src/guards/memory/index.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";
import { describeGuardContract, type GuardFixture } from "../../src/testing/index.ts";
import { untilEnough } from "../fixtures/soak.ts";
import { type Collected, collect } from "../support/collecting-runner.ts";
import { memoryFixture, sqliteFixture } from "../support/guard-fixtures.ts";
import { RIGHT, type Rules, toyFixture } from "../support/toy-guard.ts";

/** A mistake, and the promise of the contract that must name it. */
interface Planted {
  readonly mistake: string;
  readonly caughtBy: string;
  readonly fixture: GuardFixture<never, never>;
}

function planted<Db, Tx>(
  mistake: string,
  caughtBy: string,
  fixture: GuardFixture<Db, Tx>,
): Planted {
  return { mistake, caughtBy, fixture: fixture as unknown as GuardFixture<never, never> };
}

function toy(mistake: string, caughtBy: string, wrong: Partial<Rules>): Planted {
  return planted(mistake, caughtBy, toyFixture(mistake, wrong));
}

/** Claims and verifies as if every holder had shown this instead. */
function seenAs(change: (claim: Claim) => Partial<Claim>): Partial<Rules> {
  const altered = (claim: Claim): Claim => ({ ...claim, ...change(claim) });
  return {
    present: (credential, options) => {
      const mine = RIGHT.present(credential, options);
      return { ...mine, ...change(mine) };
    },
    decideClaim: (resource, standing, claim) => {
      decideClaim(resource, standing, altered(claim));
    },
  };
}

/** Reads anything that has a pair as a vouched one. */
const careless: Rules["present"] = (credential, { keys = [] }) => {
  if (typeof credential === "string") return presentationOf(credential, keys, systemMac);
  const { token, grantId, scope } = credential;
  return presentationOf({ token, grantId, scope, trust: true }, keys, systemMac);
};

function stale(
  resource: string,
  claim: Claim,
  entry: Claim | null,
  step: "claim" | "verify",
): Error {
  return new StaleTokenError({
    resource,
    presented: claim.token,
    highest: entry?.token ?? null,
    step,
  });
}

const MISTAKES: readonly Planted[] = [
  toy(
    "compares tokens only",
    "refuses the same token of another grant",
    seenAs(() => ({ grantId: "x".repeat(27) })),
  ),
  toy("lets an equal token of another grant claim", "refuses the same token of another grant", {
    decideClaim: (resource, standing, claim) => {
      if (standing.entry?.token !== claim.token) decideClaim(resource, standing, claim);
    },
  }),
  toy("checks on write only", "before the successor's first write", {
    claims: "never",
    decideVerify: (resource, entry, claim) => {
      decideClaim(resource, { entry, floor: 0n }, claim);
    },
  }),
  toy("lets a larger token verify without a claim", "a larger token that did not claim", {
    decideVerify: (resource, entry, claim) => {
      if (entry === null || entry.token > claim.token)
        throw stale(resource, claim, entry, "verify");
      decideVerify(resource, { ...entry, token: claim.token, grantId: claim.grantId }, claim);
    },
  }),
  toy("verifies where nobody claimed", "refuses everybody where nobody claimed", {
    decideVerify: (resource, entry, claim) => {
      if (entry !== null) decideVerify(resource, entry, claim);
    },
  }),
  toy("only reads in a verify", "between a verify and the end of its transaction", {
    verifyWrites: false,
  }),
  toy("claims after the body", "does not start the body of a refused claim", {
    claimsFirst: false,
  }),
  planted(
    "replaces the manifest by rename",
    "stores the newer claim when an older one comes at the same time",
    toyFixture("rename", {}, "rename"),
  ),
  toy("claims a list one by one", "claims all of a list or none of it", { claims: "one by one" }),
  toy("verifies the first of a list", "verifies every resource of a list", { verifiesAll: false }),
  toy(
    "ignores the scope",
    "refuses a claim from another scope",
    seenAs(() => ({ scope: "x".repeat(27) })),
  ),
  toy("calls another scope stale", "refuses a claim from another scope", {
    decideClaim: (resource, standing, claim) => {
      try {
        decideClaim(resource, standing, claim);
      } catch (error) {
        if (!(error instanceof GuardScopeError)) throw error;
        throw stale(resource, claim, standing.entry, "claim");
      }
    },
  }),
  toy("forgets the scope in a verify", "refuses a verify from another scope", {
    decideVerify: (resource, entry, claim) => {
      decideVerify(resource, entry, { ...claim, scope: entry?.scope ?? claim.scope });
    },
  }),
  toy("compares doubles", "tells tokens around 2^53 apart", {
    decideClaim: (resource, { entry, floor }, claim) => {
      if (
        entry !== null &&
        Number(claim.token) <= Number(entry.token) &&
        claim.grantId !== entry.grantId
      )
        throw stale(resource, claim, entry, "claim");
      decideClaim(resource, { entry: entry && { ...entry, token: 0n }, floor }, claim);
    },
  }),
  toy("compares digits", "orders tokens by value, not by their digits", {
    decideClaim: (resource, { entry, floor }, claim) => {
      if (
        entry !== null &&
        claim.token.toString() <= entry.token.toString() &&
        claim.grantId !== entry.grantId
      )
        throw stale(resource, claim, entry, "claim");
      decideClaim(resource, { entry: entry && { ...entry, token: 0n }, floor }, claim);
    },
  }),
  toy("takes any number for a token", "refuses tokens outside 1", {
    present: (credential, options) => {
      const { token, ...rest } = credential as Exclude<Credential, string>;
      if (typeof credential === "string" || typeof token !== "bigint" || token <= MAX_TOKEN)
        return RIGHT.present(credential, options);
      return { ...RIGHT.present({ ...rest, token: 1n } as Credential, options), token };
    },
  }),
  toy("does not look at the deadline", "asks a lease's own deadline first", {
    present: (credential, options) => ({
      ...RIGHT.present(credential, options),
      checkDeadline: () => undefined,
    }),
  }),
  toy("takes a shared lease", 'refuses a lease in mode "shared"', { present: careless }),
  toy("takes a permit", 'refuses a lease in mode "permits"', { present: careless }),
  toy("takes a pair that nobody vouches for", "nobody vouches for", { present: careless }),
  toy("takes unsigned sequencers in spite of its keys", "with keys, takes signed sequencers", {
    present: (credential, options) => {
      const unsigned = typeof credential === "string" && credential.startsWith("rf1..");
      return RIGHT.present(credential, unsigned ? {} : options);
    },
  }),
  toy("keeps what a failed body wrote", "rolls back when the body throws", { rollsBack: false }),
  toy("purges without a floor", "keeps a floor under purged entries", { floor: "none" }),
  toy("lowers a floor", "never lowers that", { floor: "latest" }),
  toy("has one floor for all scopes", "keeps floors of different scopes apart", {
    floor: "one for all scopes",
  }),
  toy("keeps the old token when a resource is adopted", "with a floor under its tokens", {
    decideAdoption: (resource, standing, adoption) => {
      const move = decideAdoption(resource, standing, adoption);
      const token = standing.entry?.token ?? 0n;
      return move && { ...move, entry: { ...move.entry, token } };
    },
  }),
  toy("ignores the floor of an adoption", "with a floor under its tokens", {
    decideAdoption: (resource, standing, adoption) =>
      decideAdoption(resource, standing, { ...adoption, floor: 0n }),
  }),
  toy("forgets what the left scope had reached", "for the way back", {
    decideAdoption: (resource, standing, adoption) => {
      const move = decideAdoption(resource, standing, adoption);
      return move && { ...move, leftFloor: 0n };
    },
  }),
  planted(
    "lets a synchronous body return a promise",
    "refuses a body that returns a promise",
    memoryFixture("promises", (options) => {
      const guard = memoryGuard(options);
      return {
        ...guard,
        run: async (db, resources, credential, fn) => {
          let result: unknown;
          await guard.run(db, resources, credential, (tx) => {
            result = fn(tx);
          });
          return result;
        },
      };
    }),
  ),
  planted(
    "leaves the grant out of its condition",
    "compares token, grant and scope, all three",
    withRows((mine, which) =>
      which === "predicate"
        ? {
            text: '("fence_scope" = ? AND "fence_token" = CAST(? AS INTEGER))',
            params: mine.params.slice(0, 2),
          }
        : mine,
    ),
  ),
  planted(
    "uses the rising condition for dependent writes",
    "writes it only while the pair stands",
    withRows((mine, which, rising) => (which === "predicate" ? rising : mine)),
  ),
  planted(
    "binds tokens as doubles",
    "tells tokens around 2^53 and at 2^62 - 1 apart",
    withRows((mine) => ({
      text: mine.text.replaceAll("CAST(? AS INTEGER)", "CAST(CAST(? AS REAL) AS INTEGER)"),
      params: mine.params,
    })),
  ),
];

interface Condition {
  readonly text: string;
  readonly params: readonly string[];
}

/** The SQLite fixture with other conditions for its rows. */
function withRows(
  change: (mine: Condition, which: "predicate" | "claimPredicate", rising: Condition) => Condition,
): ReturnType<typeof sqliteFixture> {
  return sqliteFixture("planted conditions", {
    conditions: (guard) => ({
      predicate: (credential) =>
        change(guard.predicate(credential), "predicate", guard.claimPredicate(credential)),
      claimPredicate: (credential) => {
        const rising = guard.claimPredicate(credential);
        return { ...change(rising, "claimPredicate", rising), set: rising.set };
      },
    }),
  });
}

async function contractOf(
  fixture: GuardFixture<never, never>,
  wanted?: (name: string) => boolean,
): Promise<Collected> {
  return collect((runner) => {
    describeGuardContract(runner, fixture);
  }, wanted);
}

/** What a contract says, and not a toy that fell over. */
const REFUSALS = [
  "AssertionError",
  "StaleTokenError",
  "GuardScopeError",
  "InvalidArgumentError",
  "LeaseLostError",
];
/** A soak runs the whole contract against every mistake; otherwise only the promise that must catch it. */
const WHOLE = process.env["RINGFENCE_SOAK"] === "1";

describe("the guard contract", () => {
  it("passes the toy guard as long as nothing is planted in it", async () => {
    const { failed, passed } = await contractOf(toyFixture("right") as GuardFixture<never, never>);
    expect(failed).toEqual([]);
    expect(passed.length).toBeGreaterThan(50);
  });

  it.each(MISTAKES)("rejects a guard that $mistake", async ({ fixture, caughtBy }) => {
    // Some mistakes show only when two steps happen to meet: then the same promise is tried again.
    const { failed } = await untilEnough(
      async () => contractOf(fixture, (name) => WHOLE || name.includes(caughtBy)),
      (seen) => seen.failed.length > 0,
    );
    const names = failed.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining([expect.stringContaining(caughtBy)]));
    for (const { error } of failed) expect(REFUSALS).toContain((error as Error).constructor.name);
  });
});
