/*
 * One of several processes that increment a counter in SQLite under leases of a lock service that cannot be trusted:
 * its leases end after a few milliseconds, whatever their holders do, and now and then it forgets its last numbers and
 * gives them out again. Driven by messages of the test; everything that was accepted is recorded in the database, in
 * the transaction that wrote it.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "libsql";
import { BackendError, StaleTokenError } from "../../src/core/errors.ts";
import type { Presented } from "../../src/core/guard.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { isBusy } from "../../src/guards/sqlite/client.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { createLockManager } from "../../src/index.ts";

/** One stretch of work. */
export interface StressOrder {
  readonly file: string;
  readonly guarded: boolean;
  /** The untrustworthy service, or a lock manager over SQLite whose leases nobody renews. */
  readonly service: "adversary" | "manager";
  readonly forMs: number;
  /** Part of every version that it writes: no other worker or stretch has it. */
  readonly worker: string;
}

/** What a worker saw in it. */
export interface StressReport {
  readonly leases: number;
  readonly accepted: number;
  readonly claimsRefused: number;
  readonly writesRefused: number;
}

const SCOPE = "stress".padEnd(27, "-");
const RESOURCE = "counter";
/** How often the lock service forgets, and by how many numbers at most. */
const FORGETS = 0.05;
const FORGOTTEN = 3;

const now = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;
const between = (low: number, high: number): number => low + Math.random() * (high - low);

/** Runs `body` in one transaction; tries again while the file is locked. */
async function inTransaction<T>(db: Database.Database, body: () => T): Promise<T> {
  for (;;) {
    try {
      db.exec("BEGIN IMMEDIATE");
    } catch (error) {
      if (!isBusy(error)) throw error;
      await sleep(between(1, 5));
      continue;
    }
    try {
      const result = body();
      db.exec("COMMIT");
      return result;
    } catch (error) {
      db.exec("ROLLBACK");
      throw error;
    }
  }
}

/** The next lease, `null` while another one lasts. */
async function acquire(db: Database.Database): Promise<Presented | null> {
  return inTransaction(db, () => {
    const row = db.prepare("SELECT token, ends_ms AS endsMs FROM service").all()[0] as {
      token: number;
      endsMs: number;
    };
    if (now() < row.endsMs) return null;
    const last = Math.random() < FORGETS ? row.token - Math.ceil(between(0, FORGOTTEN)) : row.token;
    const token = Math.max(1, last + 1);
    db.prepare("UPDATE service SET token = ?, ends_ms = ?").run(token, now() + between(2, 12));
    const grantId = randomBytes(20).toString("base64url");
    return { token: BigInt(token), grantId, scope: SCOPE, trust: true };
  });
}

/** Where a worker gets its leases, and how long it pauses under one: often longer than that lasts. */
interface Service {
  acquire(): Promise<Presented | null>;
  pauseMs(): number;
  close(): Promise<void>;
}

/** The ttl of the lock manager's leases; the adversary's are a few milliseconds. */
const TTL_MS = 100;

function serviceOf(order: StressOrder, db: Database.Database): Service {
  if (order.service === "adversary")
    return {
      acquire: async () => acquire(db),
      pauseMs: () => between(0, 20),
      close: async () => undefined,
    };
  const locks = createLockManager(sqliteDriver(`${order.file}-locks`), {
    ttl: TTL_MS,
    keepalive: "off",
    requestTimeout: "2s",
  });
  return {
    async acquire() {
      // A stopped process may keep the lock file locked for longer than an attempt may take.
      const lease = await locks.tryAcquire(RESOURCE).catch((error: unknown) => {
        if (error instanceof BackendError) return null;
        throw error;
      });
      // The bare pair: this holder does not look at its own deadline, as one that is stopped cannot.
      return (
        lease && { token: lease.token, grantId: lease.grantId, scope: lease.scope, trust: true }
      );
    },
    // Half of them well past their ttl: the next holder, if it is quick, writes before they do.
    pauseMs: () => (Math.random() < 0.5 ? between(0, TTL_MS / 5) : between(1.5, 2.5) * TTL_MS),
    close: async () => locks.close(),
  };
}

async function work(order: StressOrder): Promise<StressReport> {
  const { file, guarded, forMs, worker } = order;
  const db = new Database(file, { timeout: 20 });
  const service = serviceOf(order, db);
  const guard = sqliteGuard();
  const report = { leases: 0, accepted: 0, claimsRefused: 0, writesRefused: 0 };
  const end = now() + forMs;
  while (now() < end) {
    const lease = await service.acquire();
    if (lease === null) {
      await sleep(between(1, 6));
      continue;
    }
    report.leases += 1;
    try {
      if (guarded) await guard.claim(db, RESOURCE, lease);
      const seen = await inTransaction(
        db,
        () =>
          db.prepare("SELECT value, version FROM counter").all()[0] as {
            value: number;
            version: string;
          },
      );
      await sleep(service.pauseMs());
      await inTransaction(db, () => {
        if (guarded) guard.verify(db, RESOURCE, lease);
        const version = `${worker}/${report.leases}`;
        db.prepare("UPDATE counter SET value = ?, version = ?").run(seen.value + 1, version);
        db.prepare(
          "INSERT INTO accepted (based_on, version, token, grant_id) VALUES (?, ?, ?, ?)",
        ).run(seen.version, version, lease.token.toString(), lease.grantId);
      });
      report.accepted += 1;
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
      if (error.step === "claim") report.claimsRefused += 1;
      else report.writesRefused += 1;
    }
  }
  await service.close();
  db.close();
  return report;
}

process.on("message", (order: StressOrder) => {
  void work(order).then((report) => process.send?.(report));
});
process.send?.("ready");
