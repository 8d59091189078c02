import { describe, expect, it } from "vitest";
import { EXIT_CODES, list, run } from "../../src/lab/index.ts";
import { playOnce } from "../../src/lab/run.ts";

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

/** A server that runs out of memory drops nothing here: there would be nothing to see. */
const NOT_SHARED = new Set(["S37"]);
/** A standby is promoted, which lacks what was granted. */
const FAILED_OVER = new Set(["S08", "S09", "S40"]);

it.each(
  list()
    .filter(({ id, arms }) => arms.ringfence.lock.kind === "core" && !NOT_SHARED.has(id))
    .map((scenario) => [scenario.id, scenario.name, scenario] as const),
)("%s %s: holds with the lease table of PostgreSQL as well", async (id, _name, scenario) => {
  const lock = { kind: "postgres", standby: FAILED_OVER.has(id) } as const;
  const arms = { ...scenario.arms, ringfence: { ...scenario.arms.ringfence, lock } };
  const { verdict } = await playOnce({ ...scenario, arms }, "ringfence", 1);
  expect(verdict.violations).toEqual([]);
  expect(verdict.verdict).toBe(true);
});

it("lists each scenario once, with a number of the list of failures", () => {
  const ids = list().map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^S[0-5]\d$/);
});

it("refuses a scenario that there is not", async () => {
  await expect(run(["S99"])).rejects.toThrow("lab list");
});
