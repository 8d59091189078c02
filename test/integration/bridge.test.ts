import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { type OldLock, underBoth } from "../../examples/bridge-from-redlock.ts";
import { redlockDriver } from "../../src/drivers/redlock/index.ts";
import { createLockManager } from "../../src/index.ts";
import { describeRedis, stopAfter } from "../fixtures/redis-server.ts";
import { RedlockServers } from "../fixtures/redlock-servers.ts";
import { size } from "../fixtures/soak.ts";

/** The libraries themselves, where the benchmarks have installed them. */
const PEERS = join(import.meta.dirname, "../../bench/peers/package.json");

const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";

/** What `redlock` 4 and 5 do on the wire: the key is the resource, set where it is absent, on a majority. */
function byHand(clients: readonly Redis[]): OldLock {
  return {
    async using<T>(keys: string[], ttlMs: number, work: (signal: AbortSignal) => Promise<T>) {
      const [key = ""] = keys;
      for (;;) {
        const value = Math.random().toString(36);
        const votes = await Promise.all(
          clients.map(async (client) => client.set(key, value, "PX", ttlMs, "NX")),
        );
        try {
          if (votes.filter((vote) => vote === "OK").length > clients.length / 2)
            return await work(new AbortController().signal);
        } finally {
          await Promise.all(clients.map(async (client) => client.eval(FREE, 1, key, value)));
        }
        await new Promise((resolve) => setTimeout(resolve, 5 + 30 * Math.random()));
      }
    },
  };
}

function oldLocks(): readonly [string, (clients: readonly Redis[]) => OldLock][] {
  const locks: [string, (clients: readonly Redis[]) => OldLock][] = [["by hand", byHand]];
  if (!existsSync(join(PEERS, "../node_modules/redlock"))) return locks;
  const load = createRequire(PEERS);
  const { default: Redlock } = load("redlock") as {
    default: new (clients: readonly Redis[], settings: object) => OldLock;
  };
  const { RedlockMutex } = load("redis-semaphore") as {
    RedlockMutex: new (
      clients: readonly Redis[],
      key: string,
      options: object,
    ) => { acquire(): Promise<void>; release(): Promise<void> };
  };
  locks.push(
    ["redlock", (clients) => new Redlock(clients, { retryCount: -1, retryDelay: 20 })],
    [
      "redis-semaphore",
      (clients) => ({
        async using<T>([key = ""]: string[], ttl: number, work: (s: AbortSignal) => Promise<T>) {
          const mutex = new RedlockMutex(clients, key, {
            lockTimeout: ttl,
            acquireTimeout: 60_000,
          });
          await mutex.acquire();
          try {
            return await work(new AbortController().signal);
          } finally {
            await mutex.release();
          }
        },
      }),
    ],
  );
  return locks;
}

describeRedis("the bridge for a fleet that runs an older lock and Ringfence", () => {
  it.each(oldLocks())(
    "neighbouring releases exclude each other: old and both, both and new (%s)",
    async (_name, make) => {
      const servers = stopAfter(await RedlockServers.start(3));
      const clients = servers.all.map(({ port }) => new Redis({ port, host: "127.0.0.1" }));
      const managers = Array.from({ length: 6 }, () =>
        createLockManager(redlockDriver(servers.clients()), { ttl: 10_000, handOff: "off" }),
      );
      let [inside, overlaps, sections] = [0, 0, 0];
      const section = async (): Promise<void> => {
        inside += 1;
        if (inside > 1) overlaps += 1;
        await new Promise((resolve) => setTimeout(resolve, 2));
        inside -= 1;
        sections += 1;
      };
      const rounds = size(5, 200);
      const fleet = async (works: readonly (() => Promise<unknown>)[]): Promise<unknown> =>
        Promise.all(
          works.map(async (work) => {
            for (let round = 0; round < rounds; round += 1) await work();
          }),
        );
      try {
        const old = make(clients);
        const before = async (): Promise<unknown> => old.using(["job"], 30_000, section);
        const between = managers.map(
          (manager) => async (): Promise<unknown> => underBoth(old, manager, "job", section),
        );
        const after = managers.map(
          (manager) => async (): Promise<unknown> => manager.request("job", section),
        );
        await fleet([before, before, ...between.slice(0, 2)]);
        await fleet([...between.slice(2, 4), ...after.slice(4, 6)]);
        expect(sections).toBe(8 * rounds);
        expect(overlaps).toBe(0);
      } finally {
        await Promise.all(managers.map(async (manager) => manager.close()));
        for (const client of clients) client.disconnect();
      }
    },
  );
});
