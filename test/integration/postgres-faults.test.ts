import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, type ClientConfig, Pool } from "pg";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { postgresAdvisoryDriver, postgresDriver } from "../../src/drivers/postgres/index.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { BackendConfigError, createLockManager, StaleTokenError } from "../../src/index.ts";
import { canMoveWallClocks, compileShim, WallClock } from "../../src/lab/chaos/wall-clock.ts";
import { PgBouncer } from "../fixtures/pgbouncer.ts";
import { POSTGRES_LIBRARIES } from "../fixtures/postgres-clients.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter, until } from "../fixtures/redis-server.ts";
import { size } from "../fixtures/soak.ts";
import { bundle } from "../support/bundle.ts";
import type { PostgresCounterOrder } from "../support/postgres-counter-worker.ts";

const PROCESSES = 8;
const TIMES = size(6, 500);
const KILL_EVERY_MS = size(60, 100);

describePostgres("PostgreSQL under faults", () => {
  let worker: Awaited<ReturnType<typeof bundle>> | undefined;
  beforeAll(async () => {
    worker = await bundle("test/support/postgres-counter-worker.ts");
  }, 60_000);
  afterAll(() => {
    worker?.remove();
  });

  async function count(
    url: string,
    library: PostgresCounterOrder["library"],
    times = TIMES,
    processes = PROCESSES,
  ): Promise<unknown[]> {
    return await Promise.all(
      Array.from({ length: processes }, async (_, number) => {
        const order: PostgresCounterOrder = { url, library, times, worker: number };
        const child = spawn(process.execPath, [worker?.file ?? "", JSON.stringify(order)], {
          stdio: ["ignore", "inherit", "inherit"],
        });
        return await new Promise((resolve) =>
          child.on("exit", (code, signal) => {
            resolve(code ?? signal);
          }),
        );
      }),
    );
  }

  async function counted(server: PostgresServer): Promise<unknown> {
    const [row] = await server.query(
      "SELECT value, (SELECT count(*)::int FROM steps) AS steps FROM counter",
    );
    return row;
  }

  async function withCounter(settings = {}): Promise<PostgresServer> {
    const server = stopAfter(await PostgresServer.start({ max_connections: 200, ...settings }));
    await server.query(
      "CREATE TABLE counter (value int); INSERT INTO counter VALUES (0); CREATE TABLE steps (id text PRIMARY KEY)",
    );
    return server;
  }

  for (const library of ["pg", "postgres.js"] as const)
    it(`${PROCESSES} processes add ${TIMES} each while sessions are ended at random: the count is exact (${library})`, async () => {
      const server = await withCounter();
      const admin = server.pool({ max: 1 });
      let ended = 0;
      const state = { over: false };
      const ending = (async () => {
        while (!state.over) {
          await new Promise((resolve) => setTimeout(resolve, KILL_EVERY_MS));
          const { rowCount } = await admin.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'
             AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`,
          );
          ended += rowCount ?? 0;
        }
      })();
      const codes = await count(server.url, library);
      state.over = true;
      await ending;
      await admin.end();
      expect(codes).toEqual(Array.from({ length: PROCESSES }, () => 0));
      expect(await counted(server)).toEqual({ value: PROCESSES * TIMES, steps: PROCESSES * TIMES });
      expect(ended).toBeGreaterThan(3);
    }, 600_000);

  it("through PgBouncer in transaction mode the lease table counts exactly", async () => {
    const server = await withCounter();
    const bouncer = stopAfter(await PgBouncer.start(server, "transaction", 6));
    const [times, processes] = [size(2, 100), size(3, PROCESSES)];
    const all = Array.from({ length: processes }, () => 0);
    for (const library of ["pg", "postgres.js"] as const) {
      await server.query("UPDATE counter SET value = 0; TRUNCATE steps");
      expect(await count(bouncer.url, library, times, processes)).toEqual(all);
      expect(await counted(server)).toEqual({ value: processes * times, steps: processes * times });
    }
  }, 600_000);

  for (const library of POSTGRES_LIBRARIES) {
    it(`advisory locks refuse a pooler, and say what to use (${library.name})`, async () => {
      const server = stopAfter(await PostgresServer.start({ fsync: "on" }));
      const bouncer = stopAfter(await PgBouncer.start(server, "transaction"));
      const locks = stopAfter(
        createLockManager(postgresAdvisoryDriver(library.client(bouncer.port))),
      );
      const refused = locks.acquire("job");
      await expect(refused).rejects.toThrow(BackendConfigError);
      await expect(refused).rejects.toThrow(/pooler.*postgresDriver.*direct address/s);
      expect(await server.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).toEqual([]);
    });

    it(`advisory locks work through a pooler of sessions that is said to be one (${library.name})`, async () => {
      const server = stopAfter(await PostgresServer.start({ fsync: "on" }));
      const bouncer = stopAfter(await PgBouncer.start(server, "session", 10));
      const driver = postgresAdvisoryDriver(library.client(bouncer.port), { pooler: "session" });
      const locks = stopAfter(createLockManager(driver));
      const lease = await locks.acquire("job");
      expect(await locks.tryAcquire("job")).toBe(null);
      expect(await lease.release()).toBe("released");
    });

    it(`waiters behind a pooler poll, and get in soon (${library.name})`, async () => {
      const server = stopAfter(await PostgresServer.start());
      const bouncer = stopAfter(await PgBouncer.start(server, "transaction"));
      const locks = [0, 1].map(() =>
        stopAfter(
          createLockManager(postgresDriver(library.client(bouncer.port)), { trustSettings: true }),
        ),
      );
      const lease = await locks[0]?.acquire("job");
      const waiting = locks[1]?.acquire("job", { wait: "5s" });
      await until(async () => (await locks[0]?.inspect("job"))?.pending.length === 1);
      const from = performance.now();
      await lease?.release();
      await (await waiting)?.release();
      expect(performance.now() - from).toBeLessThan(4000);
    });

    it(`no token repeats when the server is killed, though its users have synchronous_commit off (${library.name})`, async () => {
      const server = stopAfter(
        await PostgresServer.start({
          // The kernel survives: what was written is there without fsync. What was not even written is not.
          synchronous_commit: "off",
          wal_writer_delay: "10s",
        }),
      );
      let last = 0n;
      for (let round = 0; round < size(1, 20); round += 1) {
        const locks = createLockManager(postgresDriver(library.client(server.port)), {
          trustSettings: true,
          drain: 50,
        });
        for (let i = 0; i < 5; i += 1) {
          const lease = await locks.acquire("job", { wait: "10s" });
          expect(lease.token > last).toBe(true);
          last = lease.token;
          await lease.release();
        }
        // Held when the server dies: the grant itself must be there afterwards.
        const held = await locks.acquire(`held ${round}`);
        await server.kill();
        await locks.close();
        await server.restart();
        const after = stopAfter(
          createLockManager(postgresDriver(library.client(server.port)), { trustSettings: true }),
        );
        expect((await after.inspect(`held ${round}`)).held[0]?.grantId).toBe(held.grantId);
      }
    }, 120_000);

    it(`a session that an administrator ends costs no lease (${library.name})`, async () => {
      const server = stopAfter(await PostgresServer.start());
      const locks = stopAfter(
        createLockManager(postgresDriver(library.client(server.port)), {
          ttl: 2000,
          trustSettings: true,
        }),
      );
      const lease = await locks.acquire("job");
      await server.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'ringfence %'",
      );
      await new Promise((resolve) => setTimeout(resolve, 2500));
      lease.assertHeld();
      expect(await lease.release()).toBe("released");
    });

    it(`an advisory lock whose session is ended is lost long before its next renewal, and nothing throws (${library.name})`, async () => {
      const server = stopAfter(await PostgresServer.start({ fsync: "on" }));
      const locks = stopAfter(
        createLockManager(postgresAdvisoryDriver(library.client(server.port)), { ttl: "30s" }),
      );
      const lease = await locks.acquire("job");
      const lost = new Promise((resolve) => {
        locks.on("lost", ({ reason }) => {
          resolve(reason);
        });
      });
      const from = performance.now();
      await server.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'ringfence %'",
      );
      expect(await lost).toBe("session-ended");
      expect(performance.now() - from).toBeLessThan(5000);
      expect(await lease.release()).toBe("already-lost");
      const next = await locks.acquire("job");
      expect(next.token > lease.token).toBe(true);
    });
  }

  it("a heartbeat notices that the lock is gone, though its session answers", async () => {
    const server = stopAfter(await PostgresServer.start({ fsync: "on" }));
    const sessions: Client[] = [];
    class Noted extends Client {
      constructor(config?: ClientConfig) {
        super(config);
        sessions.push(this);
      }
    }
    const pool = new Pool({ connectionString: server.url, Client: Noted });
    const locks = stopAfter(createLockManager(postgresAdvisoryDriver(pool), { ttl: 1500 }));
    const lease = await locks.acquire("job");
    const lost = new Promise((resolve) => {
      locks.on("lost", ({ reason }) => {
        resolve(reason);
      });
    });
    // What DISCARD ALL does too.
    for (const session of sessions) await session.query("SELECT pg_advisory_unlock_all()");
    expect(await lost).toBe("session-ended");
    expect(await lease.release()).toBe("already-lost");
  });

  it.skipIf(!canMoveWallClocks())(
    "a step of the database host's clock grants a held name to the next, and the guard keeps the first one out",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "ringfence-clock-"));
      onTestFinished(() => {
        rmSync(folder, { recursive: true, force: true });
      });
      const clock = new WallClock(compileShim(folder), join(folder, "wall-clock.offset"));
      // The server runs as another user.
      chmodSync(folder, 0o755);
      const server = stopAfter(await PostgresServer.start({}, clock.env));
      const pool = server.pool();
      const guard = postgresGuard();
      const managers = [0, 1].map(() =>
        stopAfter(
          createLockManager(postgresDriver(POSTGRES_LIBRARIES[0].client(server.port)), {
            ttl: "30s",
            keepalive: "off",
            trustSettings: true,
          }),
        ),
      );
      const first = await managers[0]?.acquire("job");
      expect(await managers[1]?.tryAcquire("job")).toBe(null);
      clock.set(60_000);
      const second = await managers[1]?.acquire("job", { wait: "5s" });
      if (first === undefined || second === undefined) throw new Error("none");
      // Both believe: the row of the guarantee table says so. The token tells them apart.
      first.assertHeld();
      second.assertHeld();
      expect(second.takenOver).toBe(true);
      expect(second.token > first.token).toBe(true);
      await guard.claim(pool, "resource", first);
      await guard.claim(pool, "resource", second);
      await expect(guard.run(pool, "resource", first, async () => undefined)).rejects.toThrow(
        StaleTokenError,
      );
      await pool.end();
    },
  );
});
