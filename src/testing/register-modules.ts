import type { ContractRunner, DriverFixture } from "./driver-contract/fixture.ts";

interface Module<P> {
  readonly name: string;
  excuse(fixture: DriverFixture): string | null;
  readonly promises: readonly P[];
}

interface Promised {
  readonly promise: string;
  readonly excuse?: (fixture: DriverFixture) => string | null;
}

/**
 * Registers a contract's modules at a test runner: one group each, one test for each promise. What does not apply to the
 * fixture passes as a test that is named after the reason and prints it.
 */
export function registerModules<P extends Promised>(
  runner: ContractRunner,
  fixture: DriverFixture,
  modules: readonly Module<P>[],
  run: (promised: P) => Promise<void>,
): void {
  const excused = (what: string, reason: string): void => {
    runner.it(`does not apply: ${reason} (${what})`, async () => {
      console.log(`${fixture.name}: ${what} does not apply: ${reason}`);
    });
  };
  for (const module of modules) {
    runner.describe(module.name, () => {
      const reason = module.excuse(fixture);
      if (reason !== null) {
        excused(module.name, reason);
        return;
      }
      for (const promised of module.promises) {
        const why = promised.excuse?.(fixture) ?? null;
        if (why !== null) excused(`${module.name}: ${promised.promise}`, why);
        else runner.it(promised.promise, async () => run(promised));
      }
    });
  }
}
