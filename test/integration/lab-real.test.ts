import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { buildFirst, place, ringfence } from "../e2e/ringfence.ts";
import { SOAK } from "../fixtures/soak.ts";

buildFirst();
const { env } = place();

interface Row {
  readonly id: string;
  readonly conclusion: string;
  readonly arms: readonly { readonly arm: string; readonly holds: boolean }[];
}

async function lab(...args: string[]): Promise<readonly Row[]> {
  const { code, stdout, stderr } = await ringfence(["lab", "run", "-o", "json", ...args], { env });
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as Row[];
}

const words = (rows: readonly Row[]): string[] =>
  rows.map(({ id, conclusion, arms }) =>
    [id, conclusion, ...arms.map(({ arm, holds }) => `${arm} ${String(holds)}`)].join(", "),
  );

const there =
  process.env["CI"] !== undefined || spawnSync("redis-server", ["--version"]).status === 0;
if (!there)
  console.warn("skipped, there is no redis-server: apt-get install redis-server redis-tools");

/** Short ones, one for each kind of fault: a held message, a lost reply, a failover, a dead process, a full server. */
const SHORT = ["S04", "S07", "S08", "S20", "S21", "S37", "S49", "S58"];
/** Without a lock server to disturb. */
const IN_A_FILE = ["S04", "S55"];

describe.skipIf(!there)("the failures with real servers and processes", () => {
  it.each(SHORT)(
    "%s comes out in each arm as it does in the simulator",
    async (id) => {
      expect(words(await lab(id, "--real"))).toEqual(words(await lab(id)));
    },
    60_000,
  );

  it.each(IN_A_FILE)(
    "%s comes out so with Ringfence's locks in a file of SQLite",
    async (id) => {
      expect(words(await lab(id, "--real", "--store", "sqlite"))).toEqual(words(await lab(id)));
    },
    60_000,
  );

  // Only where it has its minutes: a test that is skipped fails in CI.
  if (SOAK)
    it("all of them come out as in the simulator, in less than two minutes", {
      timeout: 600_000,
    }, async () => {
      const startedMs = performance.now();
      const real = await lab("--real");
      const tookMs = performance.now() - startedMs;
      expect(words(real)).toEqual(words(await lab(...real.map(({ id }) => id))));
      expect(tookMs).toBeLessThan(120_000);
      const file = await lab("--real", "--store", "sqlite");
      expect(words(file)).toEqual(words(await lab(...file.map(({ id }) => id))));
    });
});
