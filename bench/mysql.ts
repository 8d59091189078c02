/**
 * The lease table of MySQL and MariaDB: an uncontended acquire and release through a lock manager against the same two
 * statements sent raw on the same client, and how many statements that is; how long a hand-off between two managers takes;
 * and what 200 waiters on one name cost while nothing changes. Run: `npm run bench -- mysql`, or a part of it alone:
 * `npm run bench -- mysql handoff`.
 */
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { mysqlDriver } from "../src/drivers/mysql/index.ts";
import { tablesOf } from "../src/drivers/mysql/options.ts";
import { statements } from "../src/drivers/mysql/sql.ts";
import { put } from "../src/drivers/mysql/step.ts";
import { createLockManager } from "../src/index.ts";
import { MariadbServer } from "../test/fixtures/mariadb-server.ts";
import { compare, figure, median, say } from "./harness.ts";

const SLICE_MS = 50;
const HAND_OFFS = 200;
const WAITERS = 200;
const trust = { trustSettings: true };

// Without syncs: a disk's time is the same for both sides of a comparison, and hides everything else.
const server = await MariadbServer.start();
const synced = await MariadbServer.start({ "innodb-flush-log-at-trx-commit": 1 });

/** Statements that the server has carried out so far. */
async function carriedOut(): Promise<number> {
  const rows = (await server.query("SHOW GLOBAL STATUS LIKE 'Queries'")) as { Value: string }[];
  return Number(rows[0]?.Value);
}

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

async function alone(): Promise<void> {
  const client = await createConnection({ uri: server.url, flags: ["FOUND_ROWS"] });
  const locks = createLockManager(mysqlDriver(client), trust);
  // The same statements with the same values: a longer row is more work for the server.
  const sample = await locks.acquire("raw");
  const [rows] = await client.query<RowDataPacket[]>(
    "SELECT CONCAT(id) AS id, CONCAT(holder) AS holder, CONCAT(grant_id) AS grant_id FROM ringfence_locks",
  );
  const { id, holder, grant_id } = rows[0] as { id: string; holder: string; grant_id: string };
  await sample.release();
  const sql = statements(tablesOf({}));
  await compare(
    {
      title: "uncontended acquire + release, mysql2",
      ours: "ringfence",
      theirs: "the same two statements raw",
      unit: "/s",
      target: "ratio at least 0.7",
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
          const grant = String(i).padStart(grant_id.length, "0");
          await client.query(put(sql.grantIdle, id, grant, holder, "30000", "0"));
          await client.query(put(sql.releaseSole, id, grant));
        }),
    },
  );
  const before = await carriedOut();
  for (let i = 0; i < 1000; i += 1) await (await locks.acquire("ours")).release();
  const each = ((await carriedOut()) - before) / 1000;
  say(`  statements of a cycle: ${figure(each, 2)} (with the sweep)`);
  await locks.close();
  await client.end();
}

async function handOff(on: MariadbServer, what: string): Promise<void> {
  const sides = [0, 1].map(() => createLockManager(mysqlDriver(on.pool()), trust));
  let lease = await sides[0]?.acquire("passed");
  const times: number[] = [];
  for (let i = 1; i <= HAND_OFFS; i += 1) {
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
    `hand-off between two managers, ${what}, ${HAND_OFFS} times: median ${figure(median(times), 2)} ms (target: under 10 ms)`,
  );
}

/** Each waiter in a manager of its own, as in as many processes. */
async function waiters(): Promise<void> {
  const crowd = await MariadbServer.start({ "max-connections": 4 * WAITERS });
  const managers = Array.from({ length: WAITERS }, () =>
    createLockManager(mysqlDriver(crowd.pool(), { maxSessions: 1 }), trust),
  );
  const holder = createLockManager(mysqlDriver(crowd.pool()), { ...trust, ttl: "1h" });
  const lease = await holder.acquire("popular");
  const given = new AbortController();
  setMaxListeners(WAITERS, given.signal);
  const waiting: Promise<unknown>[] = [];
  for (const manager of managers) {
    waiting.push(manager.acquire("popular", { signal: given.signal }).catch(() => undefined));
    await sleep(20);
  }
  while ((await holder.inspect("popular")).pending.length < WAITERS) await sleep(100);
  await sleep(5000);
  const count = async (): Promise<number> => {
    const rows = (await crowd.query("SHOW GLOBAL STATUS LIKE 'Queries'")) as { Value: string }[];
    return Number(rows[0]?.Value);
  };
  const [before, from] = [await count(), performance.now()];
  await sleep(30_000);
  const seconds = (performance.now() - from) / 1000;
  say(
    `${figure(WAITERS)} waiters on one name in processes of their own, nothing changes: ${figure(((await count()) - before) / seconds, 1)} statements/s at the server, sleeps and looks for offers among them (target: under 40)`,
  );
  given.abort();
  await Promise.all(waiting);
  await lease.release();
  for (const manager of [...managers, holder]) await manager.close();
  await crowd.stop();
}

const parts: Record<string, () => Promise<void>> = {
  alone,
  handoff: async () => {
    await handOff(server, "no syncs");
    await handOff(synced, "a sync for each commit");
  },
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
