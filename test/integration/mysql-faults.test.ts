import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RowDataPacket } from "mysql2/promise";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { mysqlDriver } from "../../src/drivers/mysql/index.ts";
import { mysqlGuard } from "../../src/guards/mysql/index.ts";
import { createLockManager, StaleTokenError } from "../../src/index.ts";
import { canMoveWallClocks, compileShim, WallClock } from "../../src/lab/chaos/wall-clock.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { size, untilEnough } from "../fixtures/soak.ts";
import { bundle } from "../support/bundle.ts";
import type { MysqlCounterOrder } from "../support/mysql-counter-worker.ts";

const PROCESSES = size(3, 8);
const TIMES = size(4, 500);
const KILL_EVERY_MS = size(60, 100);
const DURABLE = { "innodb-flush-log-at-trx-commit": 1 };
/** Every session but the one that asks. */
const OTHERS =
  "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'";

describeMariadb("MariaDB under faults", () => {
  let worker: Awaited<ReturnType<typeof bundle>> | undefined;
  beforeAll(async () => {
    worker = await bundle("test/support/mysql-counter-worker.ts");
  }, 60_000);
  afterAll(() => {
    worker?.remove();
  });

  async function count(url: string, round: number): Promise<unknown[]> {
    return await Promise.all(
      Array.from({ length: PROCESSES }, async (_, number) => {
        const order: MysqlCounterOrder = { url, times: TIMES, worker: `${round}.${number}` };
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

  it(`${PROCESSES} processes add ${TIMES} each while sessions are ended at random: the count is exact`, async () => {
    const server = stopAfter(await MariadbServer.start({ "max-connections": 200 }));
    await server.query("CREATE TABLE counter (value INT)");
    await server.query("INSERT INTO counter VALUES (0)");
    await server.query("CREATE TABLE steps (id VARCHAR(64) PRIMARY KEY)");
    const admin = await server.connect();
    onTestFinished(() => {
      admin.destroy();
    });
    const seen = { ended: 0, rounds: 0 };
    const state = { over: false };
    const ending = (async () => {
      while (!state.over) {
        await new Promise((resolve) => setTimeout(resolve, KILL_EVERY_MS));
        const [rows] = await admin.query<RowDataPacket[]>(`${OTHERS} ORDER BY RAND() LIMIT 1`);
        // It may have ended by itself meanwhile.
        const kill = admin.query("KILL CONNECTION ?", [rows[0]?.["id"] ?? 0]);
        seen.ended += await kill.then(
          () => 1,
          () => 0,
        );
      }
    })();
    await untilEnough(
      async () => {
        const codes = await count(server.url, seen.rounds);
        seen.rounds += 1;
        expect(codes).toEqual(Array.from({ length: PROCESSES }, () => 0));
        return seen.ended;
      },
      (ended) => ended > 3,
    );
    state.over = true;
    await ending;
    const total = PROCESSES * TIMES * seen.rounds;
    expect(await server.query("SELECT value FROM counter")).toEqual([{ value: total }]);
    expect(await server.query("SELECT COUNT(*) AS steps FROM steps")).toEqual([{ steps: total }]);
    expect(seen.ended).toBeGreaterThan(3);
  }, 600_000);

  it("no token repeats and no grant is forgotten when the server is killed", async () => {
    const server = stopAfter(await MariadbServer.start(DURABLE));
    let last = 0n;
    for (let round = 0; round < size(1, 20); round += 1) {
      const locks = createLockManager(mysqlDriver(server.pool()), {
        drain: 50,
        requestTimeout: 1000,
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
      const after = stopAfter(createLockManager(mysqlDriver(server.pool())));
      expect((await after.inspect(`held ${round}`)).held[0]?.grantId).toBe(held.grantId);
      const next = await after.acquire("job");
      expect(next.token > last).toBe(true);
      last = next.token;
      await next.release();
    }
  }, 240_000);

  it("sessions that an administrator ends cost no lease, and no waiter its place", async () => {
    const server = stopAfter(await MariadbServer.start(DURABLE));
    const locks = [0, 1].map(() =>
      stopAfter(createLockManager(mysqlDriver(server.pool()), { ttl: 2000 })),
    );
    const lease = await locks[0]?.acquire("job");
    const waiting = locks[1]?.acquire("job", { wait: "30s" });
    await expect.poll(async () => (await locks[0]?.inspect("job"))?.pending.length).toBe(1);
    for (const { id } of (await server.query(OTHERS)) as { id: number }[])
      await server.query("KILL CONNECTION ?", [id]).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 2500));
    lease?.assertHeld();
    expect(await lease?.release()).toBe("released");
    const next = await waiting;
    expect(next?.takenOver).toBe(false);
    expect(await next?.release()).toBe("released");
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
      const server = stopAfter(await MariadbServer.start(DURABLE, clock.env));
      const pool = server.pool();
      onTestFinished(async () => pool.end());
      const guard = mysqlGuard();
      const managers = [0, 1].map(() =>
        stopAfter(createLockManager(mysqlDriver(server.pool()), { ttl: "30s", keepalive: "off" })),
      );
      const first = await managers[0]?.acquire("job");
      expect(await managers[1]?.tryAcquire("job")).toBe(null);
      // Back: nothing is granted early.
      clock.set(-60_000);
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
    },
  );
});
