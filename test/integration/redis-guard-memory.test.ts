import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { StaleTokenError } from "../../src/core/errors.ts";
import type { RedisCapabilities } from "../../src/drivers/redis/index.ts";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { type RedisStore, redisGuard, redisStore } from "../../src/guards/redis/index.ts";
import { createLockManager, type LockManager } from "../../src/index.ts";
import {
  describeRedis,
  RedisServer,
  startReplicated,
  stopAfter,
} from "../fixtures/redis-server.ts";

const HOUR_US = 3_600_000_000n;
const NAME = "balance";
const host = "127.0.0.1";
const guard = redisGuard();

type Locks = LockManager<RedisCapabilities>;

function locksAt(port: number): Locks {
  return stopAfter(
    createLockManager(redisDriver(new Redis({ host, port, lazyConnect: true })), { ttl: "2s" }),
  );
}

/** A guarded store on a server of its own, which keeps its memory. */
async function guarded(): Promise<RedisStore> {
  const server = stopAfter(await RedisServer.start());
  const client = new Redis({ host, port: server.port });
  stopAfter({
    close: async () => {
      client.disconnect();
    },
  });
  return redisStore(client, "accounts");
}

/** Whoever holds the lock now raised its counter an hour ahead of every clock, claimed and wrote. */
async function firstHolder(locks: Locks, store: RedisStore): Promise<() => Promise<void>> {
  const above = BigInt(Date.now()) * 1000n + HOUR_US;
  const lease = await locks.acquire(NAME, { above, keepalive: "off" });
  const { token, grantId, scope } = lease;
  // It does not look at its own deadline, as one that is stopped cannot.
  const pair = { token, grantId, scope, trust: true } as const;
  await guard.claim(store, NAME, pair);
  await guard.set(store, NAME, pair, NAME, "100");
  return async () => guard.set(store, NAME, pair, NAME, "of the old holder");
}

/** The lock server has forgotten: the fresh holder gets through by one repair, and nothing stale is written. */
async function freshHolder(
  locks: Locks,
  store: RedisStore,
  lateWrite: () => Promise<void>,
): Promise<void> {
  const tokens: bigint[] = [];
  locks.on("acquired", ({ token }) => {
    tokens.push(BigInt(token ?? 0));
  });
  const seen = await locks.request(
    NAME,
    { guard: { guard, db: store, resource: NAME } },
    async (_lease, tx) => {
      const before = await tx.get(NAME);
      await expect(lateWrite()).rejects.toThrow(StaleTokenError);
      tx.set(NAME, "90");
      return before;
    },
  );
  expect(seen).toBe("100");
  await expect(lateWrite()).rejects.toThrow(StaleTokenError);
  const [refused = 0n, repaired = 0n, ...more] = tokens;
  expect(more).toEqual([]);
  const ahead = BigInt(Date.now()) * 1000n + HOUR_US / 2n;
  expect([refused < ahead, repaired > ahead]).toEqual([true, true]);
  expect(await store.transaction(async (tx) => tx.get(NAME))).toBe("90");
}

describeRedis("the Redis guard when a counter went backwards", () => {
  it("lets the fresh holder through by one repair after FLUSHALL, and nothing stale", async () => {
    const server = stopAfter(await RedisServer.start());
    const [locks, store] = [locksAt(server.port), await guarded()];
    const lateWrite = await firstHolder(locks, store);
    await server.command("FLUSHALL");
    await freshHolder(locks, store, lateWrite);
  });

  it("lets the fresh holder through by one repair after a restored backup, and nothing stale", async () => {
    const server = stopAfter(await RedisServer.start());
    const [locks, store] = [locksAt(server.port), await guarded()];
    await locks.request(NAME, async () => undefined);
    await server.command("SAVE");
    const lateWrite = await firstHolder(locks, store);
    await server.kill();
    await server.restart();
    await freshHolder(locksAt(server.port), store, lateWrite);
  });

  it("lets the fresh holder through by one repair on a promoted stale replica, and nothing stale", async () => {
    const { primary, replicas } = await startReplicated(1);
    stopAfter(primary);
    for (const replica of replicas) stopAfter(replica);
    const [replica] = replicas;
    const [locks, store] = [locksAt(primary.port), await guarded()];
    await locks.request(NAME, async () => undefined);
    // From here on it hears nothing of the primary.
    await replica?.command("REPLICAOF", "NO", "ONE");
    const lateWrite = await firstHolder(locks, store);
    await primary.kill();
    await freshHolder(locksAt(replica?.port ?? 0), store, lateWrite);
  });

  it("forgets data and claims together: after FLUSHALL of the guard's own server nobody writes without a new claim", async () => {
    const server = stopAfter(await RedisServer.start());
    const client = new Redis({ host, port: server.port });
    stopAfter({
      close: async () => {
        client.disconnect();
      },
    });
    const store = redisStore(client, "accounts");
    const lateWrite = await firstHolder(locksAt(server.port), store);
    await server.command("FLUSHALL");
    await expect(lateWrite()).rejects.toMatchObject({ code: "ERR_STALE_TOKEN", highest: null });
    const seen = await locksAt(server.port).request(
      NAME,
      { guard: { guard, db: store, resource: NAME } },
      async (_lease, tx) => {
        tx.set(NAME, "anew");
        return tx.get(NAME);
      },
    );
    expect(seen).toBe("anew");
    await expect(lateWrite()).rejects.toThrow(StaleTokenError);
  });
});
