import type { ContractRunner } from "../driver-contract/fixture.ts";
import type { GuardContractModule, GuardFixture, GuardPromise } from "./fixture.ts";
import { claims } from "./modules/claims.ts";
import { credentials } from "./modules/credentials.ts";
import { fencedRows } from "./modules/fenced-rows.ts";
import { interleavings } from "./modules/interleavings.ts";
import { lists } from "./modules/lists.ts";
import { running } from "./modules/running.ts";
import { scopes } from "./modules/scopes.ts";
import { tokens } from "./modules/tokens.ts";
import { upkeep } from "./modules/upkeep.ts";
import { verifies } from "./modules/verifies.ts";
import { World } from "./world.ts";

const MODULES: readonly GuardContractModule[] = [
  claims,
  verifies,
  interleavings,
  lists,
  scopes,
  tokens,
  credentials,
  running,
  upkeep,
  fencedRows,
];

/**
 * Registers the tests that every guard must pass. They play the lock service themselves, and a bad one: it lets several
 * holders in at once and hands out numbers twice. Each test opens an empty resource. What does not apply to a guard
 * passes as a test that is named after the reason and prints it.
 *
 * @example
 * describeGuardContract({ describe, it }, {
 *   name: "memory",
 *   bodies: "sync",
 *   has: { openTransactions: false, fencedRows: false },
 *   async open() {
 *     const store = memoryStore<string>();
 *     return {
 *       db: store,
 *       other: store,
 *       guard: (options) => memoryGuard(options),
 *       transaction: async (db, body) => db.transaction(body),
 *       read: (tx, key) => tx.get(key) ?? null,
 *       write: (tx, key, value) => tx.set(key, value),
 *       close: async () => undefined,
 *     };
 *   },
 * });
 */
export function describeGuardContract<Db, Tx>(
  runner: ContractRunner,
  fixture: GuardFixture<Db, Tx>,
): void {
  // A guard is only ever called with what its own resource gave.
  const erased = fixture as GuardFixture;
  runner.describe(`guard contract: ${fixture.name}`, () => {
    for (const module of MODULES) {
      runner.describe(module.name, () => {
        for (const promised of module.promises) {
          const reason = promised.excuse?.(erased) ?? null;
          if (reason === null) register(runner, erased, promised);
          else excused(runner, erased, `${module.name}: ${promised.promise}`, reason);
        }
      });
    }
  });
}

function register(runner: ContractRunner, fixture: GuardFixture, promised: GuardPromise): void {
  runner.it(promised.promise, async () => {
    const world = await World.open(fixture);
    try {
      await promised.run(world);
    } finally {
      await world.close();
    }
  });
}

function excused(
  runner: ContractRunner,
  fixture: GuardFixture,
  what: string,
  reason: string,
): void {
  runner.it(`does not apply: ${reason} (${what})`, async () => {
    console.log(`${fixture.name}: ${what} does not apply: ${reason}`);
  });
}
