import { mkdirSync, rmSync } from "node:fs";
import { expect, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { KeySpace, slotOf } from "../../src/drivers/redis/keys.ts";
import { BackendUnavailableError, createLockManager } from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import {
  describeRedis,
  RedisServer,
  startCluster,
  stopAfter,
  until,
} from "../fixtures/redis-server.ts";

/** What an acquire rejects with, that may try for a short while. */
async function refusal(acquiring: PromiseLike<unknown>): Promise<BackendUnavailableError> {
  try {
    await acquiring;
  } catch (error) {
    if (error instanceof BackendUnavailableError) return error;
    throw error;
  }
  throw new Error("it was granted");
}

/** NOSCRIPT, OOM and READONLY are in redis-faults, MOVED and ASK in redis-cluster. */
describeRedis("what Redis refuses", () => {
  for (const library of LIBRARIES) {
    it(`MISCONF: a server that cannot save changes nothing, and goes on when it can (${library.name})`, async () => {
      const server = stopAfter(
        await RedisServer.start("--save", "3600 1", "--enable-protected-configs", "yes"),
      );
      const manager = stopAfter(
        createLockManager(redisDriver(library.single(server.port)), { trustSettings: true }),
      );
      const lease = await manager.acquire("held");
      rmSync(server.folder, { recursive: true });
      await server.command("BGSAVE");
      await until(async () => (await server.info("rdb_last_bgsave_status")) === "err");
      const error = await refusal(manager.acquire("job", { wait: 200 }));
      expect(error.message).toContain("MISCONF");
      expect(error.outcome).toBe("not-applied");
      expect(lease.state).toBe("held");
      mkdirSync(server.folder);
      await server.command("CONFIG", "SET", "dir", server.folder);
      await server.command("BGSAVE");
      await until(async () => (await server.info("rdb_last_bgsave_status")) === "ok");
      await lease.renew();
      await (await manager.acquire("job")).release();
      expect(await lease.release()).toBe("released");
    });

    it(`LOADING: a server that reads its file grants nothing, and waiters get in after it (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start("--rdbcompression", "no"));
      const manager = stopAfter(
        createLockManager(redisDriver(library.single(server.port)), { trustSettings: true }),
      );
      await (await manager.acquire("job")).release();
      for (let i = 0; i < 50; i += 1) await server.command("SET", `filler-${i}`, "x".repeat(5000));
      await server.command("SAVE");
      await server.kill();
      // Slow enough to be seen: 50 ms a key, and an eye for clients after each.
      const loading = server.restart(
        "--key-load-delay",
        "50000",
        "--loading-process-events-interval-bytes",
        "1024",
      );
      await until(async () =>
        (await server.command("GET", "x").catch(() => "")).includes("LOADING"),
      );
      const error = await refusal(manager.tryAcquire("job"));
      expect(error.message).toContain("LOADING");
      expect(error.outcome).toBe("not-applied");
      const waiting = manager.acquire("job", { wait: "5s" });
      await loading;
      expect(await (await waiting).release()).toBe("released");
    });

    it(`CLUSTERDOWN: a slot that nobody serves grants nothing until somebody does (${library.name})`, async () => {
      const servers = (await startCluster()).map((server) => stopAfter(server));
      const port = servers[0]?.port ?? 0;
      const manager = stopAfter(createLockManager(redisDriver(library.cluster(port))));
      await (await manager.acquire("job")).release();
      const [key] = new KeySpace("", "default").of("job");
      const slot = String(slotOf(key));
      const owners: RedisServer[] = [];
      for (const server of servers)
        if (!(await server.command("EXISTS", key)).startsWith("-")) owners.push(server);
      await owners[0]?.command("CLUSTER", "DELSLOTS", slot);
      const error = await refusal(manager.tryAcquire("job"));
      expect(error.message).toContain("CLUSTERDOWN");
      expect(error.outcome).toBe("not-applied");
      await owners[0]?.command("CLUSTER", "ADDSLOTS", slot);
      await (await manager.acquire("job", { wait: "5s" })).release();
    });
  }
});
