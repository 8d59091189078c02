import { afterAll, beforeAll, expect, it } from "vitest";
import { encodeName } from "../../src/core/lock-name.ts";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { KeySpace, slotOf } from "../../src/drivers/redis/keys.ts";
import { createLockManager } from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import {
  describeRedis,
  type RedisServer,
  startCluster,
  stopAfter,
} from "../fixtures/redis-server.ts";

const NAMES = ["a", "a{b", "a}b", "{}", "{x}y", "ü/…", "a b", "}{", "{{", "%7B", "x".repeat(512)];

describeRedis("a Redis Cluster", () => {
  let servers: RedisServer[] = [];
  beforeAll(async () => {
    servers = await startCluster();
  });
  afterAll(async () => {
    await Promise.all(servers.map(async (server) => server.stop()));
  });

  const port = (): number => servers[0]?.port ?? 0;

  /** The server that has a slot, and another one. */
  async function ownerOf(slot: number): Promise<{ owner: RedisServer; other: RedisServer }> {
    for (const owner of servers) {
      const reply = await owner.command("CLUSTER", "COUNTKEYSINSLOT", String(slot));
      const get = await owner.command("GET", `{${tagIn(slot)}}`);
      const other = servers.find((server) => server !== owner);
      if (reply.startsWith(":") && !get.startsWith("-MOVED") && other !== undefined)
        return { owner, other };
    }
    throw new Error(`nobody has slot ${slot}`);
  }

  it("keeps all keys of a name in the slot that the server computes as well", async () => {
    const keys = new KeySpace("", "name{space}");
    for (const name of NAMES) {
      const slots = new Set<number>();
      for (const key of keys.of(name))
        slots.add((await servers[0]?.number("CLUSTER", "KEYSLOT", key)) ?? -1);
      expect([...slots], encodeName(name)).toEqual([slotOf(keys.of(name)[0])]);
    }
  });

  for (const library of LIBRARIES) {
    it(`locks names of every slot, queues, lists and hands over (${library.name})`, async () => {
      const namespace = `all-${library.name}`;
      const [one, two] = [1, 2].map(() =>
        stopAfter(createLockManager(redisDriver(library.cluster(port())), { namespace })),
      );
      if (one === undefined || two === undefined) throw new Error("no manager");
      const leases = await Promise.all(NAMES.map(async (name) => one.acquire(name)));
      const waiting = NAMES.map(async (name) => two.acquire(name, { wait: "5s" }));
      await Promise.all(leases.map(async (lease) => lease.renew()));
      const { held } = await two.query();
      expect(held.map(({ name }) => name).sort()).toEqual([...NAMES].sort());
      for (const lease of leases) expect(await lease.release()).toBe("released");
      for (const [i, lease] of (await Promise.all(waiting)).entries()) {
        expect(lease.token > (leases[i]?.token ?? 0n)).toBe(true);
        expect(await lease.release()).toBe("released");
      }
      expect((await one.query()).held).toEqual([]);
    });

    it(`keeps a lease while its slot moves to another server (${library.name})`, async () => {
      const namespace = `move-${library.name}`;
      const name = "moving";
      const manager = stopAfter(
        createLockManager(redisDriver(library.cluster(port())), { namespace, ttl: "10s" }),
      );
      const lease = await manager.acquire(name);
      const [key] = new KeySpace("", namespace).of(name);
      const slot = slotOf(key);
      const { owner, other } = await ownerOf(slot);
      const ids = await Promise.all(
        [owner, other].map(
          async (server) =>
            /\r\n([0-9a-f]{40})/.exec(await server.command("CLUSTER", "MYID"))?.[1] ?? "",
        ),
      );
      const [from = "", to = ""] = ids;
      const set = async (server: RedisServer, ...args: string[]): Promise<void> => {
        expect(await server.command("CLUSTER", "SETSLOT", String(slot), ...args)).toBe("+OK\r\n");
      };
      await set(other, "IMPORTING", from);
      await set(owner, "MIGRATING", to);
      await lease.renew();
      const moved = ["MIGRATE", "127.0.0.1", String(other.port), key, "0", "1000"];
      expect(await owner.command(...moved)).toBe("+OK\r\n");
      // The old server says ASK now, and later MOVED.
      await lease.renew();
      for (const server of [other, owner]) await set(server, "NODE", to);
      await lease.renew();
      expect(lease.state).toBe("held");
      expect((await manager.inspect(name)).held[0]?.grantId).toBe(lease.grantId);
      expect(await lease.release()).toBe("released");
      const next = await manager.acquire(name);
      expect(next.token > lease.token).toBe(true);
      await next.release();
    });

    it(`refuses a client that knows one server only (${library.name})`, async () => {
      const manager = stopAfter(createLockManager(redisDriver(library.single(port()))));
      await expect(manager.acquire("a")).rejects.toThrow(/pass a client for a Cluster/);
    });

    it(`honours a key prefix (${library.name})`, async () => {
      const keyPrefix = `app-${library.name}:`;
      const client = library.cluster(port(), { keyPrefix });
      const manager = stopAfter(createLockManager(redisDriver(client)));
      const lease = await manager.acquire("prefixed");
      const keys = await Promise.all(
        servers.map(async (server) => server.command("KEYS", `${keyPrefix}*`)),
      );
      expect(keys.join("")).toContain(`${keyPrefix}ringfence:default:{prefixed}:l`);
      expect((await manager.query()).held.map(({ name }) => name)).toEqual(["prefixed"]);
      expect(await lease.release()).toBe("released");
    });
  }
});

/** Some text whose slot is this one. */
function tagIn(slot: number): string {
  for (let i = 0; ; i += 1) if (slotOf(String(i)) === slot) return String(i);
}
