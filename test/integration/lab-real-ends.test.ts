import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { runReal } from "../../src/lab/chaos/run-real.ts";
import type { Play } from "../../src/lab/scenarios/play.ts";
import { arms, type Scenario } from "../../src/lab/scenarios/scenario.ts";

const there =
  process.env["CI"] !== undefined || spawnSync("redis-server", ["--version"]).status === 0;
if (!there)
  console.warn("skipped, there is no redis-server: apt-get install redis-server redis-tools");

const never = new Promise<never>(() => undefined);

/** A scenario without clients: nothing but how it ends. Without protection it never does. */
function ending(
  name: string,
  ours: (s: Play) => Promise<unknown>,
  { property = "P8", withinMs = 300 }: Partial<Pick<Scenario, "property" | "withinMs">> = {},
): Scenario {
  return {
    ...{ id: "S99", name, title: name, arms: arms(), real: { clients: [] }, property, withinMs },
    async play(s: Play): Promise<void> {
      await (s.ours ? ours(s) : never);
    },
  };
}

describe.skipIf(!there)("how a run with real servers ends", () => {
  it("tells who never gets on from who was slow, who failed, and who was not asked to", async () => {
    const results = await runReal([
      // Slow by half a second, with nine seconds to spare.
      ending("slow", async (s) => s.after(3500), { withinMs: 3000 }),
      ending("never", async () => never),
      ending("failed", async (s) => {
        void s.must("it", Promise.reject(new Error("no such luck")));
        await never;
      }),
      ending("not P8", async () => never, { property: "P9" }),
      ending("in time", async () => Promise.resolve(), { withinMs: 3000 }),
    ]);
    expect(
      results.map(({ scenario, arms: { naive, ringfence }, conclusion }) => [
        scenario.name,
        naive.verdict.verdict,
        ringfence.verdict.verdict,
        conclusion,
        ...ringfence.verdict.reasons,
      ]),
    ).toEqual([
      ["slow", false, "unknown", "undecided", "it came to its end later than the scenario allows"],
      ["never", false, false, "no progress"],
      ["failed", false, "unknown", "undecided", "no such luck"],
      ["not P8", "unknown", "unknown", "inconclusive", "it was not played to its end in time"],
      ["in time", false, true, "held"],
    ]);
  }, 60_000);
});
