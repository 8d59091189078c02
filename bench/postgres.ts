/**
 * The lease table of PostgreSQL: an uncontended acquire and release through a lock manager against the same two
 * statements sent raw on the same client; how long a hand-off between two managers takes; what 1,000 waiters on one name
 * cost while nothing changes; what 20,000 held leases cost; and both drivers beside other locks. Run:
 * `npm run bench -- postgres`, or a part of it alone: `npm run bench -- postgres peers`.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import postgres from "postgres";
import type { Ask } from "../src/core/driver.ts";
import { postgresDriver } from "../src/drivers/postgres/index.ts";
import { tablesOf } from "../src/drivers/postgres/options.ts";
import { statements } from "../src/drivers/postgres/sql.ts";
import { createLockManager } from "../src/index.ts";
import { systemClock } from "../src/runtime/system-clock.ts";
import { systemRandom } from "../src/runtime/system-random.ts";
import { PostgresServer } from "../test/fixtures/postgres-server.ts";
import { compare, figure, median, say } from "./harness.ts";
import { beside } from "./peers/postgres.ts";

const SLICE_MS = 50;
const WAITERS = 1000;
const LEASES = 20_000;

// Without fsync: a disk's time is the same for both sides of a comparison, and hides everything else.
const server = await PostgresServer.start({ shared_buffers: "128MB", max_wal_size: "1GB" });
const synced = await PostgresServer.start({ fsync: "on", full_page_writes: "on" });
const trust = { trustSettings: true };

/** Cycles a second, one at a time. */
async function rate(cycle: (i: number) => Promise<void>): Promise<number> {
  const begun = performance.now();
  let done = 0;
  while (performance.now() - begun < SLICE_MS) {
    await cycle(done);
    done += 1;
  }
  return (done * 1000) / (performance.now() - begun);
}

async function uncontended(
  library: string,
  client: Parameters<typeof postgresDriver>[0],
  raw: (name: string, text: string, values: string[]) => Promise<unknown>,
): Promise<void> {
  const locks = createLockManager(postgresDriver(client), trust);
  const sql = statements(tablesOf({}));
  const [{ name, text }, release] = [sql.grantIdle, sql.releaseSole];
  // The same statements with the same values: a longer row is more work for the server.
  const sample = await locks.acquire("sample");
  const [row] = await server.query(
    "SELECT holder, grant_id FROM ringfence_locks WHERE grant_id IS NOT NULL",
  );
  const [holder, grantId] = [String(row?.["holder"]), String(row?.["grant_id"])];
  await sample.release();
  await compare(
    {
      title: `uncontended acquire + release, ${library}`,
      ours: "ringfence",
      theirs: "the same two statements raw",
      unit: "/s",
      target: "ratio at least 0.85",
      pairs: 15,
      slices: 10,
      warmUps: 20,
    },
    {
      ours: async () =>
        rate(async () => {
          await (await locks.acquire("ours")).release();
        }),
      theirs: async () =>
        rate(async (i) => {
          const grant = String(i).padStart(grantId.length, "0");
          await raw(name, text, ["default:raw", grant, holder, "30000", "0"]);
          await raw(release.name, release.text, ["default:raw", grant]);
        }),
    },
  );
  await locks.close();
}

async function handOff(on: PostgresServer, what: string): Promise<void> {
  const sides = [0, 1].map(() =>
    createLockManager(postgresDriver(new Client({ connectionString: on.url })), trust),
  );
  let lease = await sides[0]?.acquire("passed");
  const times: number[] = [];
  for (let i = 1; i <= 200; i += 1) {
    const waiting = sides[i % 2]?.acquire("passed");
    while ((await sides[0]?.inspect("passed"))?.pending.length !== 1) await sleep(2);
    const from = performance.now();
    await lease?.release();
    lease = await waiting;
    times.push(performance.now() - from);
  }
  await lease?.release();
  for (const side of sides) await side.close();
  say(
    `hand-off between two managers, ${what}, 200 times: median ${figure(median(times), 2)} ms (target: under 5 ms)`,
  );
}

async function waiters(): Promise<void> {
  const context = {
    clock: systemClock,
    random: systemRandom,
    host: { id: "bench", name: "bench", pid: process.pid, bootId: null, timeNamespace: null },
    namespace: "bench",
    notify: () => undefined,
  };
  const client = new Client({ connectionString: server.url });
  const backend = await postgresDriver(client).open(context);
  const io = { timeoutMs: 30_000, signal: new AbortController().signal };
  const ask = (number: number, join: Ask["join"]): Ask => ({
    name: "popular",
    mode: "exclusive",
    permits: 1,
    grantId: `waiter-${number}`,
    holder: "bench",
    ttlMs: 3_600_000,
    lockDelayMs: 0,
    tokens: 1,
    join,
  });
  await backend.attempt(ask(-1, "no"), io);
  const state = { asked: 0, over: false };
  const due: { at: number; number: number }[] = [];
  for (let number = 0; number < WAITERS; number += 1) {
    const answer = await backend.attempt(ask(number, "yes"), io);
    // As core does: three times before the entry counts as dead, and where the driver says so.
    if (answer.kind === "busy")
      due.push({
        at: performance.now() + Math.min(answer.askAgainMs, answer.keepEntryMs / 3),
        number,
      });
  }
  const before = await commits();
  const [begun, ms] = [performance.now(), 40_000];
  while (performance.now() - begun < ms) {
    due.sort((a, b) => a.at - b.at);
    const next = due[0];
    if (next === undefined || next.at > performance.now()) {
      await sleep(Math.min(50, Math.max(1, (next?.at ?? 0) - performance.now())));
      continue;
    }
    const answer = await backend.attempt(ask(next.number, "kept"), io);
    state.asked += 1;
    if (answer.kind === "busy")
      next.at = performance.now() + Math.min(answer.askAgainMs, answer.keepEntryMs / 3);
  }
  const seconds = (performance.now() - begun) / 1000;
  const committed = (await commits()) - before;
  say(
    `${figure(WAITERS)} waiters on one name, nothing changes: ${figure(state.asked / seconds, 1)} statements/s, ${figure(committed / seconds, 1)} transactions/s at the server with all its own (target: under 60)`,
  );
  await backend.close();
}

async function commits(): Promise<number> {
  await sleep(1500);
  const [row] = await server.query(
    "SELECT xact_commit::float8 AS n FROM pg_stat_database WHERE datname = current_database()",
  );
  return Number(row?.["n"]);
}

/** Seconds of processor time of the server's processes so far. */
function serverSeconds(): number {
  const { stdout } = spawnSync("pgrep", ["-P", String(server.pid)], { encoding: "utf8" });
  let ticks = 0;
  for (const pid of [String(server.pid), ...stdout.split("\n").filter(Boolean)]) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks / 100;
}

async function held(): Promise<void> {
  const locks = createLockManager(
    postgresDriver(new Client({ connectionString: server.url }), { maxSessions: 4 }),
    { ...trust, ttl: "30s" },
  );
  for (let at = 0; at < LEASES; at += 64)
    await Promise.all(Array.from({ length: 64 }, async (_, i) => locks.acquire(`held-${at + i}`)));
  await sleep(10_000);
  const [begun, here, there] = [performance.now(), process.cpuUsage(), serverSeconds()];
  await sleep(30_000);
  const { user, system } = process.cpuUsage(here);
  const seconds = (performance.now() - begun) / 1000;
  const ours = (user + system) / 1e6 / seconds;
  const theirs = (serverSeconds() - there) / seconds;
  say(
    `${figure(LEASES)} held leases, ttl 30 s: client ${figure(100 * ours, 1)} %, server ${figure(100 * theirs, 1)} % of a core (target: under 20 % together)`,
  );
  await locks.close();
}

const parts: Record<string, () => Promise<void>> = {
  alone: async () => {
    const client = new Client({ connectionString: server.url });
    await client.connect();
    await uncontended("pg", client, async (name, text, values) =>
      client.query({ name, text, values, rowMode: "array" }),
    );
    await client.end();
    const sql = postgres(server.url, { max: 1 });
    await uncontended("postgres.js", sql, async (_name, text, values) =>
      sql.unsafe(text, values, { prepare: true }).values(),
    );
    await sql.end();
  },
  handoff: async () => {
    await handOff(server, "fsync off");
    await handOff(synced, "fsync on");
  },
  peers: async () => beside(server.url),
  held,
  waiters,
};

try {
  const asked = process.argv.slice(2);
  for (const [name, part] of Object.entries(parts))
    if (asked.length === 0 || asked.includes(name)) await part();
} finally {
  await server.stop();
  await synced.stop();
}
