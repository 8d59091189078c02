import { describe, expect, it } from "vitest";
import { EXIT_CODES, list, run } from "../../src/lab/index.ts";

describe("every scenario, in its three arms", () => {
  it.each(list().map((scenario) => [scenario.id, scenario.name, scenario] as const))(
    "%s %s: comes out as it says in each arm, the same on every run",
    { timeout: 90_000 },
    async (id, _name, scenario) => {
      const [result] = await run([id]);
      const { naive, fence, ringfence } = result!.arms;
      expect(naive.verdict.verdict, "the naive arm").toBe(false);
      expect(fence.verdict.verdict, "the articles' fence").toBe(scenario.arms.fence.holds);
      expect(ringfence.verdict.violations, "Ringfence").toEqual([]);
      expect(ringfence.verdict.verdict, "Ringfence").toBe(true);
      expect(result!.conclusion).toBe("held");
      expect(EXIT_CODES[result!.conclusion]).toBe(0);
    },
  );
});

it("lists each scenario once, with a number of the list of failures", () => {
  const ids = list().map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^S[0-5]\d$/);
});

it("refuses a scenario that there is not", async () => {
  await expect(run(["S99"])).rejects.toThrow("lab list");
});
