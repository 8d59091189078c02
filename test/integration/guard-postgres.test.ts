import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import {
  BackendConfigError,
  GuardScopeError,
  InvalidArgumentError,
  LeaseLostError,
  StaleTokenError,
} from "../../src/core/errors.ts";
import type { FencedLease } from "../../src/core/lease.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { postgresGuard, postgresGuardTrigger } from "../../src/guards/postgres/index.ts";
import { createLockManager } from "../../src/index.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { holder, SCOPE } from "../support/holders.ts";
import { stopPool, stopSql } from "../support/postgres-guard-fixtures.ts";

describePostgres("the PostgreSQL guard", () => {
  let server: PostgresServer;
  let pool: Pool;
  const guard = postgresGuard();

  beforeAll(async () => {
    server = await PostgresServer.start();
    pool = server.pool();
  });
  afterAll(async () => {
    await pool.end();
    await server.stop();
  });
  beforeEach(async () => {
    await server.query(
      "DROP TABLE IF EXISTS account, ringfence_guard, ringfence_guard_floors; CREATE TABLE account (id text PRIMARY KEY, value int NOT NULL); INSERT INTO account VALUES ('x', 50), ('y', 50)",
    );
    await postgresGuard().claim(pool, "account/x", holder(1n));
  });

  const value = async (id: string, from: Pool = pool): Promise<number> => {
    const { rows } = await from.query<{ value: number }>(
      "SELECT value FROM account WHERE id = $1",
      [id],
    );
    return rows[0]?.value ?? NaN;
  };
  const update = "UPDATE account SET value = $2 WHERE id = $1";

  /** A writes under a check of its pair, while B waits in a snapshot from before; then B claims in that snapshot and reads. */
  async function olderSnapshot(check: (text: string) => string): Promise<number | string> {
    const [old, next] = [holder(33n), holder(34n)];
    await server.query("DELETE FROM ringfence_guard; UPDATE account SET value = 50");
    await guard.claim(pool, "account/x", old);
    const [a, b] = [await pool.connect(), await pool.connect()];
    try {
      await b.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await b.query("SELECT value FROM account WHERE id = 'y'");
      await a.query("BEGIN");
      await a.query(check("resource = 'account/x' AND token = 33"));
      await a.query(update, ["x", 60]);
      await a.query("COMMIT");
      await b.query(
        "UPDATE ringfence_guard SET token = 34, grant_id = $1 WHERE resource = 'account/x' AND token < 34",
        [next.grantId],
      );
      const { rows } = await b.query<{ value: number }>("SELECT value FROM account WHERE id = 'x'");
      return rows[0]?.value ?? NaN;
    } catch (error) {
      return (error as { code: string }).code;
    } finally {
      await b.query("ROLLBACK");
      a.release();
      b.release();
    }
  }

  it("S42: a verify that only locks lets a claim in an older snapshot read what was overwritten; one that updates does not", async () => {
    expect(
      await olderSnapshot((pair) => `SELECT FROM ringfence_guard WHERE ${pair} FOR UPDATE`),
    ).toBe(50);
    expect(
      await olderSnapshot((pair) => `UPDATE ringfence_guard SET used_at = now() WHERE ${pair}`),
    ).toBe("40001");
  });

  it("S42: verify fails a transaction of REPEATABLE READ that is older than the claim, with the code that repeats it", async () => {
    const tx = await pool.connect();
    try {
      await tx.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await tx.query("SELECT FROM account");
      const mine = holder(33n);
      await guard.claim(pool, "account/x", mine);
      await expect(guard.verify(tx, "account/x", mine)).rejects.toMatchObject({ code: "40001" });
    } finally {
      await tx.query("ROLLBACK");
      tx.release();
    }
  });

  it("S42: run reads in READ COMMITTED, whatever the role's default is", async () => {
    const strict = stopPool(server, "-c default_transaction_isolation=serializable");
    const level = await guard.run(strict, "account/x", holder(33n), async (tx) => {
      const { rows } = await tx.query<{ transaction_isolation: string }>(
        "SHOW transaction_isolation",
      );
      return rows[0]?.transaction_isolation;
    });
    expect(level).toBe("read committed");
  });

  it("repeats claim and body after a serialization failure and after a deadlock", async () => {
    for (const code of ["40001", "40P01"]) {
      let runs = 0;
      await guard.run(pool, "account/x", holder(code === "40001" ? 40n : 41n), async (tx) => {
        runs += 1;
        await tx.query(update, ["x", runs]);
        if (runs < 3)
          await tx.query(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '${code}'; END $$`);
      });
      expect(runs).toBe(3);
      expect(await value("x")).toBe(3);
    }
  });

  /** Moves 10 from y to x in two writes, with a successor between them that looks at both. */
  async function transfer(whole: boolean): Promise<{ seen: number; refused: boolean }> {
    const [old, next] = [holder(33n), holder(34n)];
    const set = ["account/x", "account/y"];
    const guards = (id: string): string | string[] => (whole ? set : `account/${id}`);
    const write = async (id: string, to: number): Promise<void> => {
      const tx = await pool.connect();
      try {
        await tx.query("BEGIN");
        await guard.verify(tx, guards(id), old);
        await tx.query(update, [id, to]);
      } finally {
        await tx.query("COMMIT");
        tx.release();
      }
    };
    for (const id of ["x", "y"]) await guard.claim(pool, guards(id), old);
    const [x, y] = [await value("x"), await value("y")];
    await guard.claim(pool, guards("x"), next);
    const seenX = await value("x");
    const refused = await write("y", y - 10).then(
      () => false,
      (error: unknown) => error instanceof StaleTokenError,
    );
    await guard.claim(pool, guards("y"), next);
    const seen = seenX + (await value("y"));
    await expect(write("x", x + 10)).rejects.toThrow(StaleTokenError);
    return { seen, refused };
  }

  it("S43: claiming each resource before its own read shows half a transfer; claiming the whole set first does not", async () => {
    expect(await transfer(false)).toEqual({ seen: 90, refused: false });
    await server.query("UPDATE account SET value = 50; DELETE FROM ringfence_guard");
    expect(await transfer(true)).toEqual({ seen: 100, refused: true });
  });

  it("H7: a check that reads the guard's row without its lock lets a stale write commit; verify does not", async () => {
    for (const locked of [false, true]) {
      const [old, next] = [holder(locked ? 43n : 33n), holder(locked ? 44n : 34n)];
      await guard.claim(pool, "account/x", old);
      const tx = await pool.connect();
      await tx.query("BEGIN");
      if (locked) await guard.verify(tx, "account/x", old);
      else await tx.query("SELECT FROM ringfence_guard WHERE token = 33");
      const successor = guard.claim(pool, "account/x", next).then(async () => value("x"));
      const first = await Promise.race([successor, sleep(100, "waits")]);
      await tx.query(update, ["x", 99]);
      await tx.query("COMMIT");
      tx.release();
      // Without the lock the successor had read 50 by then, and 99 came after its claim.
      expect(first).toBe(locked ? "waits" : 50);
      expect(await successor).toBe(locked ? 99 : 50);
      await server.query(update, ["x", 50]);
    }
  });

  /** A holder stops for 3 s inside its transaction, with at most 0.6 s of its lease left; when does the successor get in? */
  async function paused(
    run: (
      lease: FencedLease,
      body: (write: () => Promise<unknown>) => Promise<void>,
    ) => Promise<unknown>,
  ): Promise<{ successorMs: number; outcome: unknown }> {
    const locks = stopAfter(createLockManager(memoryDriver(), { ttl: 600, keepalive: "off" }));
    const lease = await locks.acquire("documents");
    await server.query("DELETE FROM ringfence_guard");
    const began = performance.now();
    let enter: () => void = () => undefined;
    const inside = new Promise<void>((resolve) => {
      enter = resolve;
    });
    const running = run(lease, async (write) => {
      enter();
      await sleep(3000);
      await write();
    }).catch((error: unknown) => error);
    await inside;
    await guard.claim(pool, "account/x", holder(lease.token + 1n, lease.scope));
    const successorMs = performance.now() - began;
    return { successorMs, outcome: await running };
  }

  it("S52: without timeouts, a holder that is paused inside its transaction keeps its successor out", async () => {
    const { successorMs } = await paused(async (lease, body) => {
      const tx = await pool.connect();
      try {
        await tx.query("BEGIN");
        await tx.query(
          "INSERT INTO ringfence_guard VALUES ('account/x', $1, $2, $3, now(), pg_current_xact_id())",
          [lease.token.toString(), lease.grantId, lease.scope],
        );
        await body(async () => tx.query(update, ["x", 1]));
        await tx.query("COMMIT");
      } finally {
        tx.release();
      }
    });
    expect(successorMs).toBeGreaterThan(2900);
  });

  it("S52: run ends it with its lease, through pg: nothing is written, and the loss is what it learns", async () => {
    const { successorMs, outcome } = await paused(async (lease, body) =>
      guard.run(pool, "account/x", lease, async (tx) =>
        body(async () => tx.query(update, ["x", 1])),
      ),
    );
    expect(successorMs).toBeLessThan(2500);
    expect(outcome).toBeInstanceOf(LeaseLostError);
    expect(await value("x")).toBe(50);
  });

  it("S52: run ends it with its lease, through postgres, which would connect anew under the body", async () => {
    const sql = stopSql(server);
    const { successorMs, outcome } = await paused(async (lease, body) =>
      guard.run(sql, "account/x", lease, async (tx) =>
        body(async () => tx`UPDATE account SET value = 1 WHERE id = 'x'`),
      ),
    );
    expect(successorMs).toBeLessThan(2500);
    expect(outcome).toBeInstanceOf(LeaseLostError);
    expect(await value("x")).toBe(50);
    expect([...(await sql`SELECT 1 AS one`)]).toEqual([{ one: 1 }]);
  });

  it("S52: verify bounds a transaction of the caller's own as well", async () => {
    const { successorMs } = await paused(async (lease, body) => {
      await guard.claim(pool, "account/x", lease);
      const tx = await pool.connect();
      tx.on("error", () => undefined);
      try {
        await tx.query("BEGIN");
        await guard.verify(tx, "account/x", lease);
        await body(async () => tx.query(update, ["x", 1]));
      } finally {
        tx.release(true);
      }
    });
    expect(successorMs).toBeLessThan(2500);
    expect(await value("x")).toBe(50);
  });

  it("never raises a timeout that the role has", async () => {
    const short = stopPool(server, "-c statement_timeout=5s");
    const shown = async (): Promise<unknown[]> =>
      guard.run(short, "account/x", holder(33n, SCOPE), async (tx) => {
        const all = [];
        for (const name of ["statement_timeout", "lock_timeout"])
          all.push((await tx.query<Record<string, unknown>>(`SHOW ${name}`)).rows[0]?.[name]);
        return all;
      });
    expect(await shown()).toEqual(["5s", "30s"]);
  });

  it("a session that ended under its body runs nothing more, neither in nor outside a transaction", async () => {
    const sql = stopSql(server);
    const attempts: unknown[] = [];
    const outcome = await guard
      .run(sql, "account/x", holder(33n), async (tx) => {
        const [row] = await tx`SELECT pg_backend_pid() AS pid`;
        await server.query("SELECT pg_terminate_backend($1)", [row?.["pid"]]);
        await sleep(50);
        for (let i = 0; i < 3; i += 1)
          await tx`UPDATE account SET value = 1 WHERE id = 'x'`.catch((error: unknown) => {
            attempts.push(error);
          });
      })
      .catch((error: unknown) => error);
    expect(outcome).toMatchObject({ code: "ERR_BACKEND_UNAVAILABLE", outcome: "not-applied" });
    await sleep(100);
    expect(await value("x")).toBe(50);
    expect([...(await sql`SELECT 1 AS one`)]).toEqual([{ one: 1 }]);
  });

  it("reads on a replica lose an update under a claim; a run on the replica is refused before its body", async () => {
    await using standby = await server.startStandby();
    const replica = standby.pool();
    try {
      await expect.poll(async () => value("x", replica).catch(() => null)).toBe(50);
      await standby.query("SELECT pg_wal_replay_pause()");
      await guard.run(pool, "account/x", holder(33n), async (tx) => tx.query(update, ["x", 60]));
      const next = holder(34n);
      await guard.claim(pool, "account/x", next);
      expect(await value("x", replica)).toBe(50);
      let ran = false;
      const onReplica = guard.run(replica, "account/x", next, async () => {
        ran = true;
      });
      await expect(onReplica).rejects.toThrow(BackendConfigError);
      expect(ran).toBe(false);
      const seen = await guard.run(pool, "account/x", next, async (tx) => {
        const { rows } = await tx.query<{ value: number }>(
          "SELECT value FROM account WHERE id = 'x'",
        );
        return rows[0]?.value;
      });
      expect(seen).toBe(60);
    } finally {
      await replica.end();
    }
  });

  it("the trigger refuses every write whose transaction did not claim or verify the row's resource", async () => {
    await server.query(
      postgresGuardTrigger({ on: "account", resource: { prefix: "account/", column: "id" } }),
    );
    const refused = { code: "RF001" };
    const mine = holder(33n);
    // A path that forgot the guard, whatever it does.
    for (const text of [
      "UPDATE account SET value = 1 WHERE id = 'x'",
      "INSERT INTO account VALUES ('z', 1)",
      "DELETE FROM account WHERE id = 'x'",
      "TRUNCATE account",
    ])
      await expect(server.query(text)).rejects.toMatchObject(refused);
    // One statement guarded, the other not.
    await guard.claim(pool, ["account/x", "account/z"], mine);
    const half = guard.run(pool, "account/x", mine, async (tx) => {
      await tx.query(update, ["x", 40]);
      await tx.query(update, ["y", 60]);
    });
    await expect(half).rejects.toMatchObject(refused);
    expect([await value("x"), await value("y")]).toEqual([50, 50]);
    // A row that moves to a resource of somebody else.
    const moved = guard.execute(
      pool,
      "account/x",
      mine,
      "UPDATE account SET id = 'q' WHERE id = 'x'",
    );
    await expect(moved).rejects.toMatchObject(refused);
    // A verify that was rolled back with its savepoint.
    const undone = guard.run(pool, "account/x", mine, async (tx) => {
      await tx.query("SAVEPOINT s");
      await guard.verify(tx, "account/z", mine);
      await tx.query("ROLLBACK TO SAVEPOINT s");
      await tx.query("INSERT INTO account VALUES ('z', 1)");
    });
    await expect(undone).rejects.toMatchObject(refused);
    // What is guarded passes, under a savepoint too, and only in that transaction.
    await guard.run(pool, "account/x", mine, async (tx) => {
      await tx.query("SAVEPOINT s");
      await tx.query(update, ["x", 40]);
    });
    const inserted = await guard.execute(
      pool,
      "account/z",
      mine,
      "INSERT INTO account VALUES ($1, $2) RETURNING id",
      ["z", 7],
    );
    expect(inserted).toEqual({ rows: [{ id: "z" }], count: 1 });
    expect(
      (await guard.execute(pool, "account/z", mine, "DELETE FROM account WHERE id = 'z'")).count,
    ).toBe(1);
    await expect(server.query("UPDATE account SET value = 1 WHERE id = 'x'")).rejects.toMatchObject(
      refused,
    );
    expect(await value("x")).toBe(40);
  });

  it("writes many rows, and new ones that are born fenced", async () => {
    await server.query(
      "ALTER TABLE account ADD fence_token bigint, ADD fence_grant text, ADD fence_scope text",
    );
    const [old, next] = [holder(33n), holder(34n)];
    const rows = await guard.run(pool, "accounts", old, async (tx) => {
      const born = guard.fenceValues(old, { from: 3 });
      await tx.query(
        `INSERT INTO account (id, value, ${born.columns}) VALUES ($1, $2, ${born.text})`,
        ["z", 1, ...born.params],
      );
      const claim = guard.claimPredicate(old);
      return tx.query(`UPDATE account SET ${claim.set.text} WHERE ${claim.text}`, [
        ...claim.params,
        ...claim.set.params,
      ]);
    });
    expect(rows.rowCount).toBe(3);
    const sql = stopSql(server);
    const all =
      await sql`UPDATE account SET value = 2 WHERE ${guard.predicate(old).tag(sql)} RETURNING id`;
    expect(all.length).toBe(3);
    const none =
      await sql`UPDATE account SET value = 3 WHERE ${guard.predicate(next).tag(sql)} RETURNING id`;
    expect(none.length).toBe(0);
  });

  it("refuses a pool for verify, a connection outside a transaction, and a body that ends or spoils its own", async () => {
    const mine = holder(33n);
    await guard.claim(pool, "account/x", mine);
    await expect(guard.verify(pool as never, "account/x", mine)).rejects.toThrow(
      InvalidArgumentError,
    );
    const tx = await pool.connect();
    await expect(guard.verify(tx, "account/x", mine)).rejects.toThrow(InvalidArgumentError);
    tx.release();
    await expect(guard.run(tx as never, "account/x", mine, async () => null)).rejects.toThrow(
      InvalidArgumentError,
    );
    const ends = guard.run(pool, "account/x", mine, async (inside) => inside.query("COMMIT"));
    await expect(ends).rejects.toThrow(InvalidArgumentError);
    const spoils = guard.run(pool, "account/x", mine, async (inside) => {
      await inside.query(update, ["x", 1]);
      await inside.query("SELECT 1/0").catch(() => undefined);
    });
    await expect(spoils).rejects.toMatchObject({ code: "ERR_BACKEND", outcome: "not-applied" });
    expect(await value("x")).toBe(50);
  });

  it("twenty pools create the tables at the same time", async () => {
    await server.query("DROP TABLE ringfence_guard, ringfence_guard_floors");
    const pools = Array.from({ length: 20 }, () => server.pool({ max: 1 }));
    try {
      await Promise.all(
        pools.map(async (one, i) => postgresGuard().claim(one, `resource/${i}`, holder(1n))),
      );
      expect(await server.query("SELECT count(*)::int AS n FROM ringfence_guard")).toEqual([
        { n: 20 },
      ]);
    } finally {
      await Promise.all(pools.map(async (one) => one.end()));
    }
  });

  it("says what is missing where it may not create tables, and refuses a later format", async () => {
    const careful = postgresGuard({ table: "missing", autoCreate: false });
    await expect(careful.claim(pool, "x", holder(1n))).rejects.toThrow(BackendConfigError);
    await server.query("UPDATE ringfence_guard_floors SET token = 2 WHERE scope = ''");
    await expect(postgresGuard().claim(pool, "x", holder(1n))).rejects.toThrow(/format 2/);
  });

  it("a counter that went back is repaired once; a resource that moved is GuardScopeError until it is adopted", async () => {
    const locks = stopAfter(createLockManager(memoryDriver()));
    const elsewhere = stopAfter(createLockManager(memoryDriver(), { namespace: "new" }));
    const { scope, token } = await locks.request("account/x", async (lease) => lease);
    await server.query("DELETE FROM ringfence_guard");
    // What a holder had reached before the lock's store forgot.
    await guard.claim(pool, "account/x", holder(token + 10n ** 15n, scope));
    const binding = { guard, db: pool, resource: "account/x" };
    let runs = 0;
    const fresh = await locks.request("account/x", { guard: binding }, async (lease) => {
      runs += 1;
      return lease.token;
    });
    expect(runs).toBe(1);
    expect(fresh).toBeGreaterThan(token + 10n ** 15n);
    const foreign = elsewhere.request("account/x", { guard: binding }, async () => null);
    await expect(foreign).rejects.toThrow(GuardScopeError);
    const to = await elsewhere.request("account/x", async (lease) => lease.scope);
    await guard.adopt(pool, "account/x", { from: scope, to, floor: 0n });
    expect(await elsewhere.request("account/x", { guard: binding }, async () => "in")).toBe("in");
    await expect(locks.request("account/x", { guard: binding }, async () => null)).rejects.toThrow(
      GuardScopeError,
    );
  });

  it("a claim waits for a server that is killed and comes back, and finds what was claimed before", async () => {
    await using other = await PostgresServer.start();
    const theirs = other.pool({ max: 2 });
    try {
      await guard.claim(theirs, "account/x", holder(34n));
      await other.kill();
      await expect(guard.claim(theirs, "account/x", holder(35n))).rejects.toMatchObject({
        code: "ERR_BACKEND_UNAVAILABLE",
      });
      await other.restart();
      await expect(guard.claim(theirs, "account/x", holder(33n))).rejects.toThrow(StaleTokenError);
      await guard.claim(theirs, "account/x", holder(35n));
    } finally {
      await theirs.end();
    }
  });
});
