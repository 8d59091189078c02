import type { ContractRunner } from "../../src/testing/index.ts";

/** The name of a test, and what it threw. */
export interface Failure {
  readonly test: string;
  readonly error: unknown;
}

/** Collects the tests of a contract instead of running them, and then tells which fail. */
export class CollectingRunner implements ContractRunner {
  readonly tests: { readonly name: string; readonly body: () => Promise<void> }[] = [];

  describe(_name: string, body: () => void): void {
    body();
  }

  it(name: string, body: () => Promise<void>): void {
    this.tests.push({ name, body });
  }

  /** Runs the tests of this name, or all; those that only say what does not apply are left out. */
  async failures(only?: string): Promise<Failure[]> {
    const failures: Failure[] = [];
    for (const { name, body } of this.tests) {
      if (name.startsWith("does not apply") || (only ?? name) !== name) continue;
      try {
        await body();
      } catch (error) {
        failures.push({ test: name, error });
      }
    }
    return failures;
  }
}
