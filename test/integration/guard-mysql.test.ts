import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolConnection, RowDataPacket } from "mysql2/promise";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import {
  BackendConfigError,
  BackendError,
  GuardScopeError,
  InvalidArgumentError,
  LeaseLostError,
  StaleTokenError,
} from "../../src/core/errors.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { mysqlGuard } from "../../src/guards/mysql/index.ts";
import { createLockManager } from "../../src/index.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { holder } from "../support/holders.ts";

describeMariadb("the MySQL guard", () => {
  let server: MariadbServer;
  let pool: Pool;
  const guard = mysqlGuard();

  beforeAll(async () => {
    server = await MariadbServer.start();
    pool = server.pool();
    await server.query("CREATE TABLE account (id VARCHAR(9) PRIMARY KEY, value INT NOT NULL)");
    await guard.claim(pool, "account/x", holder(1n));
  });
  afterAll(async () => {
    await pool.end();
    await server.stop();
  });
  beforeEach(async () => {
    await server.query("REPLACE INTO account VALUES ('x', 50), ('y', 50)");
    await server.query("DELETE FROM ringfence_guard");
  });

  const value = async (id: string, from: Pool | PoolConnection = pool): Promise<number> => {
    const text = "SELECT value FROM account WHERE id = ?";
    const [rows] = await from.query<RowDataPacket[]>(text, [id]);
    return rows[0]?.["value"] as number;
  };
  const update = "UPDATE account SET value = ? WHERE id = ?";

  it("S42: an updating check alone passes in an older snapshot, which shows what was overwritten; verify refuses it", async () => {
    const [old, next] = [holder(33n), holder(34n)];
    await guard.claim(pool, "account/x", old);
    const b = await pool.getConnection();
    try {
      await b.query("START TRANSACTION");
      await value("y", b);
      await guard.run(pool, "account/x", old, async (tx) => tx.query(update, [60, "x"]));
      await guard.claim(pool, "account/x", next);
      const stale = await value("x", b);
      const [alone] = await b.query(
        "UPDATE ringfence_guard SET uses = uses + 1 WHERE resource = 'account/x' AND token = 34",
      );
      expect([stale, (alone as { affectedRows: number }).affectedRows]).toEqual([50, 1]);
      await b.query("ROLLBACK");

      await b.query("START TRANSACTION");
      await value("y", b);
      const later = holder(35n);
      await guard.claim(pool, "account/x", later);
      await expect(guard.verify(b, "account/x", later)).rejects.toThrow(/snapshot is older/);
      await b.query("ROLLBACK");

      await b.query("START TRANSACTION");
      expect(await value("x", b)).toBe(60);
      await guard.verify(b, "account/x", later);
      await b.query("COMMIT");
    } finally {
      b.release();
    }
  });

  it("S42: run reads in READ COMMITTED, and the session is as it was after that", async () => {
    const one = server.pool({ connectionLimit: 1 });
    stopAfter({ close: async () => one.end() });
    const settings = async (on: Pool | PoolConnection): Promise<unknown> => {
      const text =
        "SELECT @@wait_timeout AS w, @@innodb_lock_wait_timeout AS l, @@tx_isolation AS i";
      return (await on.query<RowDataPacket[]>(text))[0][0];
    };
    const before = await settings(one);
    await guard.run(one, "account/x", holder(33n), async (tx) => {
      expect(await settings(tx)).toMatchObject({ w: 30, l: 30 });
      await value("y", tx);
      await pool.query(update, [51, "x"]);
      // A snapshot of REPEATABLE READ would show 50.
      expect(await value("x", tx)).toBe(51);
    });
    expect(await settings(one)).toEqual(before);
    const failing = guard.run(one, "account/x", holder(34n), async () =>
      Promise.reject(new Error("no")),
    );
    await expect(failing).rejects.toThrow("no");
    expect(await settings(one)).toEqual(before);
  });

  it("S52: a holder that is paused inside its transaction keeps its successor out no longer than its lease", async () => {
    const locks = stopAfter(createLockManager(memoryDriver(), { ttl: 900, keepalive: "off" }));
    const lease = await locks.acquire("documents");
    const began = performance.now();
    let enter: () => void = () => undefined;
    const inside = new Promise<void>((resolve) => {
      enter = resolve;
    });
    const outcome = guard
      .run(pool, "account/x", lease, async (tx) => {
        enter();
        await sleep(2500);
        await tx.query(update, [1, "x"]);
      })
      .catch((error: unknown) => error);
    await inside;
    await guard.claim(pool, "account/x", holder(lease.token + 1n, lease.scope));
    expect(performance.now() - began).toBeLessThan(2300);
    expect(await outcome).toBeInstanceOf(LeaseLostError);
    expect(await value("x")).toBe(50);
  });

  it("repeats claim and body after a deadlock", async () => {
    let runs = 0;
    await guard.run(pool, "account/x", holder(33n), async (tx) => {
      runs += 1;
      await tx.query(update, [runs, "x"]);
      if (runs < 3) await tx.query("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213");
    });
    expect([runs, await value("x")]).toEqual([3, 3]);
  });

  it("inserts, deletes and changes many rows after a verify, and refuses a stale holder's", async () => {
    const [old, next] = [holder(33n), holder(34n)];
    await guard.claim(pool, "accounts", old);
    const insert = "INSERT INTO account VALUES (?, ?)";
    expect((await guard.execute(pool, "accounts", old, insert, ["z", 1])).count).toBe(1);
    const all = await guard.execute(pool, "accounts", old, "UPDATE account SET value = value + 1");
    expect(all.count).toBe(3);
    await guard.claim(pool, "accounts", next);
    const remove = "DELETE FROM account WHERE id = 'z'";
    await expect(guard.execute(pool, "accounts", old, remove)).rejects.toThrow(StaleTokenError);
    expect((await guard.execute(pool, "accounts", next, remove)).count).toBe(1);
  });

  it("refuses a pool for verify, and a connection outside a transaction", async () => {
    const mine = holder(33n);
    await guard.claim(pool, "account/x", mine);
    await expect(guard.verify(pool as never, "account/x", mine)).rejects.toThrow(
      InvalidArgumentError,
    );
    const tx = await pool.getConnection();
    await expect(guard.verify(tx, "account/x", mine)).rejects.toThrow(InvalidArgumentError);
    await expect(guard.run(tx as never, "account/x", mine, async () => null)).rejects.toThrow(
      InvalidArgumentError,
    );
    tx.release();
  });

  it("tells names apart that a collation would not: case, and trailing blanks", async () => {
    await guard.claim(pool, "Account/X", holder(90n));
    await guard.claim(pool, "account/x ", holder(91n));
    await guard.claim(pool, "account/x", holder(33n));
    await expect(guard.claim(pool, "Account/X", holder(33n))).rejects.toThrow(StaleTokenError);
  });

  it("a counter that went back is repaired once; a resource that moved is GuardScopeError until it is adopted", async () => {
    const locks = stopAfter(createLockManager(memoryDriver()));
    const elsewhere = stopAfter(createLockManager(memoryDriver(), { namespace: "new" }));
    const { scope, token } = await locks.request("account/x", async (lease) => lease);
    await guard.claim(pool, "account/x", holder(token + 10n ** 15n, scope));
    const binding = { guard, db: pool, resource: "account/x" };
    const fresh = await locks.request(
      "account/x",
      { guard: binding },
      async (lease) => lease.token,
    );
    expect(fresh).toBeGreaterThan(token + 10n ** 15n);
    const foreign = elsewhere.request("account/x", { guard: binding }, async () => null);
    await expect(foreign).rejects.toThrow(GuardScopeError);
    const to = await elsewhere.request("account/x", async (lease) => lease.scope);
    await guard.adopt(pool, "account/x", { from: scope, to, floor: 0n });
    expect(await elsewhere.request("account/x", { guard: binding }, async () => "in")).toBe("in");
  });

  it("says what is missing where it may not create tables, and what happened to a server that is gone", async () => {
    const careful = mysqlGuard({ table: "missing", autoCreate: false });
    await expect(careful.claim(pool, "x", holder(1n))).rejects.toThrow(BackendConfigError);
    await using other = await MariadbServer.start();
    const theirs = other.pool({ connectionLimit: 2 });
    try {
      await guard.claim(theirs, "account/x", holder(34n));
      await other.kill();
      await expect(guard.claim(theirs, "account/x", holder(35n))).rejects.toBeInstanceOf(
        BackendError,
      );
      await other.restart();
      await expect(guard.claim(theirs, "account/x", holder(33n))).rejects.toThrow(StaleTokenError);
      await guard.claim(theirs, "account/x", holder(35n));
    } finally {
      await theirs.end();
    }
  });
});
