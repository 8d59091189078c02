/** What became of a contract's tests, by their full names. */
export interface Collected {
  readonly passed: readonly string[];
  readonly failed: readonly { readonly name: string; readonly error: unknown }[];
}

/** Registers a contract without a test runner and runs its tests, those that are `wanted`, one after the other. */
export async function collect(
  register: (runner: {
    describe(name: string, body: () => void): void;
    it(name: string, body: () => Promise<void>): void;
  }) => void,
  wanted: (name: string) => boolean = () => true,
): Promise<Collected> {
  const path: string[] = [];
  const tests: { readonly name: string; readonly body: () => Promise<void> }[] = [];
  register({
    describe(name, body) {
      path.push(name);
      body();
      path.pop();
    },
    it(name, body) {
      const full = [...path, name].join(" > ");
      if (wanted(full)) tests.push({ name: full, body });
    },
  });
  const passed: string[] = [];
  const failed: { name: string; error: unknown }[] = [];
  for (const { name, body } of tests) {
    try {
      await body();
      passed.push(name);
    } catch (error) {
      failed.push({ name, error });
    }
  }
  return { passed, failed };
}
