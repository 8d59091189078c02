import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { buildFirst, place, ringfence } from "../e2e/ringfence.ts";
import { describePostgres } from "../fixtures/postgres-server.ts";
import { SOAK, untilEnough } from "../fixtures/soak.ts";

buildFirst();
const { env, file } = place();

interface Row {
  readonly id: string;
  readonly conclusion: string;
  readonly arms: readonly {
    readonly arm: string;
    readonly holds: boolean | "unknown";
    readonly asExpected: boolean;
    readonly notes: readonly string[];
  }[];
}

/** Whether it was played to its end, with the danger in it that it is about: a busy machine may let it pass. */
function wasDangerous({ arms }: Row): boolean {
  return arms.every(({ holds, asExpected }) => holds === false || (holds === true && asExpected));
}

async function once(args: readonly string[], more: NodeJS.ProcessEnv): Promise<readonly Row[]> {
  const run = ["lab", "run", "-o", "json", ...args];
  const { code, stdout, stderr } = await ringfence(run, { env: { ...env, ...more } });
  const rows = JSON.parse(stdout) as Row[];
  const decided = rows.every(({ conclusion }) => conclusion === "held");
  expect([code, stderr]).toEqual([decided ? 0 : 3, ""]);
  return rows;
}

/** What was played, where some contained no danger after playing those again, until they did or a minute is over. */
async function dangerous(
  first: readonly Row[],
  flags: readonly string[],
  more: NodeJS.ProcessEnv = {},
): Promise<readonly Row[]> {
  const rows = new Map(first.map((row) => [row.id, row]));
  const safe = (): string[] => [...rows.values()].filter((row) => !wasDangerous(row)).map(idOf);
  if (safe().length > 0)
    await untilEnough(
      async () => {
        for (const row of await once([...safe(), ...flags], more)) rows.set(row.id, row);
      },
      () => safe().length === 0,
    );
  return [...rows.values()];
}

const idOf = ({ id }: Row): string => id;

async function lab(names: readonly string[], ...flags: string[]): Promise<readonly Row[]> {
  return await dangerous(await once([...names, ...flags], {}), flags);
}

const words = (rows: readonly Row[]): string[] =>
  rows.map(({ id, conclusion, arms }) =>
    [id, conclusion, ...arms.map(({ arm, holds }) => `${arm} ${String(holds)}`)].join(", "),
  );

/** What of these was played in another way than it could be. */
const notesOf = (rows: readonly Row[]): string[] => [
  ...new Set(rows.flatMap(({ arms }) => arms.flatMap(({ notes }) => notes))),
];

const there =
  process.env["CI"] !== undefined || spawnSync("redis-server", ["--version"]).status === 0;
if (!there)
  console.warn("skipped, there is no redis-server: apt-get install redis-server redis-tools");

/** Whether this process may make networks. */
function hasNetworks(): boolean {
  const makes = "ip link add here type veth peer name there && nsenter --version";
  return spawnSync("unshare", ["--net", "sh", "-c", makes]).status === 0;
}

/** Short ones, one for each kind of fault: a held message, a lost reply, a failover, a dead process, a full server. */
const SHORT = ["S04", "S07", "S08", "S20", "S21", "S37", "S49", "S58"];
/** A resource that moves, a line whose head dies, one of fifty, five servers: what never ends takes its time, so side by side. */
const LONG = ["S50", "S56", "S39", "S13"];
/** Without a lock server to disturb. */
const IN_A_FILE = ["S04", "S55"];
/** With a pooler; a host that is lost; a server that dies before its log is written; data in the database. */
const POSTGRES = ["S28", "S29", "S31", "S32"];

describe.skipIf(!there)("the failures with real servers and processes", () => {
  it.each(SHORT)(
    "%s comes out in each arm as it does in the simulator",
    async (id) => {
      expect(words(await lab([id], "--real"))).toEqual(words(await lab([id])));
    },
    60_000,
  );

  it(`${LONG.join(", ")} come out in each arm as in the simulator`, async () => {
    expect(words(await lab(LONG, "--real"))).toEqual(words(await lab(LONG)));
  }, 200_000);

  it.each(IN_A_FILE)(
    "%s comes out so with Ringfence's locks in a file of SQLite",
    async (id) => {
      expect(words(await lab([id], "--real", "--store", "sqlite"))).toEqual(words(await lab([id])));
    },
    60_000,
  );

  // Only where it has its minutes: a test that is skipped fails in CI.
  if (!SOAK) return;

  it("all of them come out as in the simulator, in less than two minutes", {
    timeout: 600_000,
  }, async () => {
    const elsewhere = ["sqlite", "postgres"].map((store) => ["--real", "--store", store]);
    for (const flags of [["--real"], ...elsewhere]) {
      const startedMs = performance.now();
      const first = await once(flags, {});
      expect(performance.now() - startedMs).toBeLessThan(120_000);
      const real = await dangerous(first, flags);
      expect(words(real)).toEqual(words(await lab(real.map(idOf))));
    }
  });
});

describePostgres("the failures of PostgreSQL with real servers and processes", () => {
  it(`${POSTGRES.join(", ")} come out in each arm as in the simulator, and say where no network could be made`, async () => {
    const real = await lab(POSTGRES, "--real");
    expect(words(real)).toEqual(words(await lab(POSTGRES)));
    expect(notesOf(real)).toHaveLength(hasNetworks() ? 0 : 1);
  }, 300_000);

  it("S04 comes out so with Ringfence's locks in the lease table", async () => {
    expect(words(await lab(["S04"], "--real", "--store", "postgres"))).toEqual(
      words(await lab(["S04"])),
    );
  }, 60_000);

  // As above.
  if (!SOAK) return;

  it("S29 comes out so where no network can be made", { timeout: 300_000 }, async () => {
    const unshare = file("bin/unshare");
    mkdirSync(dirname(unshare));
    const refusal = "#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n";
    writeFileSync(unshare, refusal, { mode: 0o755 });
    const path = { PATH: `${dirname(unshare)}:${env["PATH"] ?? ""}` };
    const real = await dangerous(await once(["S29", "--real"], path), ["--real"], path);
    expect(words(real)).toEqual(words(await lab(["S29"])));
    expect(notesOf(real)).toEqual([expect.stringContaining("Operation not permitted")]);
  });
});
