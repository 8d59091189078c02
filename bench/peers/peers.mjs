/**
 * The locks that the Redis driver is measured against, each over a client that it shares with nobody, by its own defaults
 * but for how long it goes on asking. A peer is { name, library, take(name) }: `take` waits for the lock, and resolves
 * to what gives it back.
 */

import { Redlock as SesameRedlock } from "@sesamecare-oss/redlock";
import { LockFactory } from "@verrou/core";
import { redisStore } from "@verrou/core/drivers/redis";
import { Mutex } from "redis-semaphore";
import * as redlock from "redlock";
import { createLock, IoredisAdapter, NodeRedisAdapter } from "redlock-universal";
import { lock } from "simple-redis-mutex";

const TTL_MS = 30_000;
const EVER = 1_000_000;

/** @param {() => any} ioredis makes a client @param {() => Promise<any>} nodeRedis makes one that is connected */
export async function peers(ioredis, nodeRedis) {
  const Redlock = redlock.default?.default ?? redlock.default;
  const original = new Redlock([ioredis()], { retryCount: EVER });
  const sesame = new SesameRedlock([ioredis()], { retryCount: EVER });
  const semaphore = ioredis();
  const verrou = new LockFactory(redisStore({ connection: ioredis() }).factory());
  const universal = new IoredisAdapter(ioredis());
  const simple = await nodeRedis();
  const universalNode = new NodeRedisAdapter(await nodeRedis());
  const byUniversal = (adapter) => async (key) => {
    const own = createLock({ adapter, key, ttl: TTL_MS, retryAttempts: EVER });
    const handle = await own.acquire();
    return async () => own.release(handle);
  };
  return [
    {
      name: "redlock",
      library: "ioredis",
      take: async (key) => {
        const held = await original.acquire([key], TTL_MS);
        return async () => held.release();
      },
    },
    {
      name: "@sesamecare-oss/redlock",
      library: "ioredis",
      take: async (key) => {
        const held = await sesame.acquire([key], TTL_MS);
        return async () => held.release();
      },
    },
    {
      name: "redis-semaphore",
      library: "ioredis",
      take: async (key) => {
        const own = new Mutex(semaphore, key, {
          lockTimeout: TTL_MS,
          acquireTimeout: Number.POSITIVE_INFINITY,
        });
        await own.acquire();
        return async () => own.release();
      },
    },
    {
      name: "@verrou/core",
      library: "ioredis",
      take: async (key) => {
        const own = verrou.createLock(key, TTL_MS);
        await own.acquire();
        return async () => own.release();
      },
    },
    { name: "redlock-universal", library: "ioredis", take: byUniversal(universal) },
    {
      name: "simple-redis-mutex",
      library: "node-redis",
      take: async (key) => lock(simple, key, { timeout: TTL_MS }),
    },
    { name: "redlock-universal", library: "node-redis", take: byUniversal(universalNode) },
  ];
}
