/*
 * One of several processes that increment a counter behind a guard over a database server, under leases of a lock
 * service that cannot be trusted: they end after a few milliseconds, whatever their holders do, and now and then it
 * forgets its last numbers and gives them out again. The processes are stopped and killed at any time; everything that
 * was accepted is recorded in the database, in the transaction that wrote it.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { RingfenceError, StaleTokenError } from "../../src/core/errors.ts";
import type { Presented } from "../../src/core/guard.ts";
import { SCOPE } from "./holders.ts";
import { type StormDatabase, stormDatabase } from "./storm-databases.ts";

/** What a worker is told on its command line: whose client it is. */
export interface StormClient {
  readonly client: "pg" | "postgres" | "mysql2";
  readonly url: string;
}

/** One stretch of work. */
export interface StormOrder {
  readonly guarded: boolean;
  readonly forMs: number;
  /** Part of every version that it writes: no other worker or stretch has it. */
  readonly worker: string;
}

const RESOURCE = "counter";
const FORGETS = 0.05;
const FORGOTTEN = 3;
const between = (low: number, high: number): number => low + Math.random() * (high - low);

/** The next lease, `null` while another one lasts. */
async function acquire(): Promise<Presented | null> {
  const step = Math.random() < FORGETS ? 1 - Math.ceil(between(0, FORGOTTEN)) : 1;
  const token = await db.grant(step, Math.ceil(between(5, 30)));
  if (token === null) return null;
  return { token, grantId: randomBytes(20).toString("base64url"), scope: SCOPE, trust: true };
}

/** Half of the work claims first and verifies in a later transaction, the other half is one `run`. */
async function increment(
  db: StormDatabase,
  lease: Presented,
  { guarded, version }: { readonly guarded: boolean; readonly version: string },
): Promise<void> {
  type Run = Parameters<Parameters<StormDatabase["transaction"]>[0]>[0];
  const read = async (run: Run): Promise<Record<string, unknown>> =>
    (await run("SELECT value, version FROM counter"))[0] ?? {};
  const write = async (run: Run, seen: Record<string, unknown>): Promise<void> => {
    await run("UPDATE counter SET value = ?, version = ?", Number(seen["value"]) + 1, version);
    await run(
      "INSERT INTO accepted (based_on, version, token, grant_id) VALUES (?, ?, ?, ?)",
      String(seen["version"]),
      version,
      lease.token.toString(),
      lease.grantId,
    );
  };
  if (guarded && Math.random() < 0.5) {
    await db.guard.run(db.pool, RESOURCE, lease, async (tx) => {
      const run = db.runIn(tx);
      const seen = await read(run);
      await sleep(between(0, 20));
      await write(run, seen);
    });
    return;
  }
  if (guarded) await db.guard.claim(db.pool, RESOURCE, lease);
  const seen = await db.transaction(read);
  await sleep(between(0, 40));
  await db.transaction(async (run, tx) => {
    if (guarded) await db.guard.verify(tx, RESOURCE, lease);
    await write(run, seen);
  });
}

async function work({ guarded, forMs, worker }: StormOrder): Promise<void> {
  const end = performance.now() + forMs;
  for (let round = 0; performance.now() < end; round += 1) {
    const lease = await acquire();
    if (lease === null) {
      await sleep(between(2, 10));
      continue;
    }
    try {
      await increment(db, lease, { guarded, version: `${worker}/${round}` });
      process.send?.("accepted");
    } catch (error) {
      // A session may be ended while its process was stopped; nothing was written then.
      if (error instanceof StaleTokenError) process.send?.(`${error.step} refused`);
      else if (error instanceof RingfenceError || db.isInterrupted(error))
        process.send?.("interrupted");
      else throw error;
    }
  }
}

const db = await stormDatabase(JSON.parse(process.argv[2] ?? "{}") as StormClient);
process.on("message", (order: StormOrder) => {
  void work(order).then(() => process.send?.("done"));
});
process.send?.("ready");
