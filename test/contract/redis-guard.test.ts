import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RedisConnection } from "../../src/guards/redis/index.ts";
import {
  type RedisStore,
  type RedisTransaction,
  redisGuard,
  redisStore,
} from "../../src/guards/redis/index.ts";
import { storeOf, Transaction } from "../../src/guards/redis/store.ts";
import { describeGuardContract, type GuardFixture } from "../../src/testing/index.ts";
import { describeRedis, RedisServer, startCluster } from "../fixtures/redis-server.ts";

const host = "127.0.0.1";
let single: RedisServer;
let cluster: RedisServer[];
const open: { readonly client: RedisConnection; readonly end: () => unknown }[] = [];
let tags = 0;

/** Two connections with one library to one server, or one Cluster. */
interface Place {
  readonly name: string;
  readonly connect: () => Promise<RedisConnection>;
}

const PLACES: readonly [Place, ...Place[]] = [
  {
    name: "ioredis",
    connect: async () => {
      const client = new Redis({ host, port: single.port });
      open.push({
        client,
        end: () => {
          client.disconnect();
        },
      });
      return client;
    },
  },
  {
    name: "node-redis",
    connect: async () => {
      const client = createClient({ socket: { host, port: single.port } });
      await client.connect();
      open.push({
        client,
        end: () => {
          client.destroy();
        },
      });
      return client;
    },
  },
  {
    name: "ioredis, Cluster, key prefix, reads from replicas",
    connect: async () => {
      const port = cluster[0]?.port ?? 0;
      const client = new Cluster([{ host, port }], { keyPrefix: "app:", scaleReads: "slave" });
      open.push({
        client,
        end: () => {
          client.disconnect();
        },
      });
      return client;
    },
  },
  {
    name: "node-redis, Cluster",
    connect: async () => {
      const port = cluster[0]?.port ?? 0;
      const client = createCluster({ rootNodes: [{ socket: { host, port } }], useReplicas: true });
      await client.connect();
      open.push({
        client,
        end: () => {
          client.destroy();
        },
      });
      return client;
    },
  },
];

function fixture({ name, connect }: Place): GuardFixture<RedisStore, RedisTransaction> {
  let clients: Promise<readonly [RedisConnection, RedisConnection]> | undefined;
  return {
    name: `redis (${name})`,
    bodies: "async",
    has: { openTransactions: true, fencedRows: false },
    async open() {
      clients ??= Promise.all([connect(), connect()]);
      const [one, two] = await clients;
      tags += 1;
      const [db, other] = [redisStore(one, `t${tags}`), redisStore(two, `t${tags}`)];
      return {
        db,
        other,
        guard: redisGuard,
        transaction: async (store, body) => store.transaction(async (tx) => body(tx)),
        read: async (tx, key) => tx.get(key),
        write: (tx, key, value) => {
          tx.set(key, value);
        },
        async begin(store) {
          const tx = new Transaction(storeOf(store));
          return {
            tx,
            async commit() {
              if ((await tx.commit()) !== "committed") throw new Error("conflict");
            },
            rollback: async () => {
              tx.end();
            },
          };
        },
        close: async () => undefined,
      };
    },
  };
}

describeRedis("the Redis guard", () => {
  beforeAll(async () => {
    single = await RedisServer.start();
    cluster = await startCluster();
  }, 60_000);
  afterAll(async () => {
    for (const { end } of open) end();
    await single.stop();
    for (const server of cluster) await server.stop();
  });

  for (const place of PLACES) describeGuardContract({ describe, it }, fixture(place));

  const holder = (token: bigint) =>
    ({ token, grantId: `g${token}`.padEnd(27, "-"), scope: "s".repeat(27), trust: true }) as const;

  describe.each(PLACES)("over $name", ({ connect }) => {
    it("writes a value, a hash and by a script, each in one step with its check", async () => {
      const guard = redisGuard();
      const client = await connect();
      const store = redisStore(client, `tools ${(tags += 1)}`);
      const [a, b] = [holder(33n), holder(34n)];
      await guard.claim(store, "stock", a);
      await guard.set(store, "stock", a, "label", "tools");
      await guard.hset(store, "stock", a, "count", { hammer: "3", saw: "2" });
      const take = {
        script: "return redis.call('HINCRBY', KEYS[1], ARGV[1], -1)",
        keys: ["count"],
        args: ["saw"],
      };
      expect(await guard.eval(store, "stock", a, take)).toBe(1);
      await guard.claim(store, "stock", b);
      await expect(guard.set(store, "stock", a, "label", "late")).rejects.toMatchObject({
        code: "ERR_STALE_TOKEN",
        step: "verify",
        presented: 33n,
        highest: 34n,
      });
      await expect(guard.hset(store, "stock", a, "count", { saw: "9" })).rejects.toThrow(/refused/);
      await expect(guard.eval(store, "stock", a, take)).rejects.toThrow(/refused/);
      const seen = await store.transaction(async (tx) => [
        await tx.get("label"),
        ...(await tx.hgetall("count")),
      ]);
      expect(seen).toEqual(["tools", ["hammer", "3"], ["saw", "1"]]);
      expect(await guard.eval(store, "stock", b, { script: "return nil" })).toBe(null);
      await expect(
        guard.eval(store, "stock", b, { script: "return redis.error_reply('MINE own')" }),
      ).rejects.toThrow("MINE own");
    });
  });

  it("shows a transaction its own writes, deletions and hashes, and lets keys go by themselves", async () => {
    const store = redisStore(await PLACES[0].connect(), "own");
    await store.transaction(async (tx) => {
      tx.set("a", "1");
      tx.hset("h", { x: "1", y: "2" });
      tx.hdel("h", "x");
      expect([await tx.get("a"), await tx.hget("h", "x"), await tx.hget("h", "y")]).toEqual([
        "1",
        null,
        "2",
      ]);
      tx.set("brief", "soon gone", { ttlMs: 30 });
    });
    await store.transaction(async (tx) => {
      expect([...(await tx.hgetall("h"))]).toEqual([["y", "2"]]);
      tx.delete("h");
      expect([...(await tx.hgetall("h"))]).toEqual([]);
      tx.delete("a");
      expect(await tx.get("a")).toBe(null);
    });
    expect(await single.command("EXISTS", store.key("a"), store.key("h"))).toBe(":0\r\n");
    await expect.poll(async () => single.command("EXISTS", store.key("brief"))).toBe(":0\r\n");
  });

  it("writes all of a transaction or nothing: a key of another type is found out before", async () => {
    const store = redisStore(await PLACES[0].connect(), "types");
    await single.command("SET", store.key("text"), "is no hash");
    await expect(
      store.transaction(async (tx) => {
        tx.set("other", "written");
        tx.hset("text", { x: "1" });
      }),
    ).rejects.toMatchObject({ code: "ERR_BACKEND_CONFIG" });
    expect(await single.command("EXISTS", store.key("other"))).toBe(":0\r\n");
    await expect(
      store.transaction(async (tx) => {
        tx.set("both", "a text");
        tx.hset("both", { x: "1" });
      }),
    ).rejects.toMatchObject({ code: "ERR_INVALID_ARGUMENT" });
  });

  it("refuses entries of a newer version, and what it cannot keep together", async () => {
    const client = await PLACES[0].connect();
    const store = redisStore(client, "newer");
    await single.command("HSET", "{newer}:ringfence-guard", "v", "2");
    await expect(redisGuard().claim(store, "a", holder(1n))).rejects.toMatchObject({
      code: "ERR_BACKEND_CONFIG",
    });
    for (const tag of ["", "{a}", "a}"]) expect(() => redisStore(client, tag)).toThrow(/braces/);
    expect(() => redisStore({} as RedisConnection, "a")).toThrow(/ioredis/);
    expect(() => store.key("ringfence-guard")).toThrow(/ringfence-guard/);
  });
});
