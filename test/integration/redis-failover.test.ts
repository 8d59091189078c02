import { expect, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { BackendUnavailableError, createLockManager } from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import {
  describeRedis,
  RedisServer,
  startReplicated,
  stopAfter,
  until,
} from "../fixtures/redis-server.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

/** A primary and one replica behind a link that can be cut. */
async function linked() {
  const proxies: TcpProxy[] = [];
  const { primary, replicas } = await startReplicated(1, {
    via: async (port) => {
      const proxy = stopAfter(await TcpProxy.to(port));
      proxies.push(proxy);
      return proxy.port;
    },
  });
  const [replica, link] = [replicas[0], proxies[0]];
  if (replica === undefined || link === undefined) throw new Error("no replica");
  return { primary: stopAfter(primary), replica: stopAfter(replica), link };
}

interface Grant {
  readonly token: bigint;
  readonly grantId: string;
}

/** A resource that is claimed before its first read, and checks each write against the claim. */
class Resource {
  #claim: Grant | undefined;
  value = 0;

  claim(grant: Grant): boolean {
    const now = this.#claim;
    const mine = now?.token === grant.token && now.grantId === grant.grantId;
    if (now !== undefined && !mine && grant.token <= now.token) return false;
    this.#claim = grant;
    return true;
  }

  write(grant: Grant, value: number): boolean {
    if (this.#claim?.token !== grant.token || this.#claim.grantId !== grant.grantId) return false;
    this.value = value;
    return true;
  }
}

describeRedis("Redis with replicas", () => {
  for (const library of LIBRARIES) {
    it(`S08: a failover that loses a grant breaks exclusion, and loses no guarded update (${library.name})`, async () => {
      const { primary, replica, link } = await linked();
      const before = stopAfter(
        createLockManager(redisDriver(library.single(primary.port)), {
          drain: 100,
          requestTimeout: 200,
        }),
      );
      const after = stopAfter(createLockManager(redisDriver(library.single(replica.port))));
      const resource = new Resource();
      link.blackhole("down");
      const a = await before.acquire("job", { ttl: "30s" });
      expect(resource.claim(a)).toBe(true);
      const read = resource.value;
      await primary.kill();
      await replica.command("REPLICAOF", "NO", "ONE");
      const b = await after.acquire("job", { ttl: "30s" });
      // Both believe it: that is what asynchronous replication does, and what the documentation says.
      expect([a.state, b.state]).toEqual(["held", "held"]);
      // Tokens rise all the same: they begin with the server's clock.
      expect(b.token > a.token).toBe(true);
      expect(resource.claim(b)).toBe(true);
      expect(resource.write(b, resource.value + 1)).toBe(true);
      expect(resource.write(a, read + 1)).toBe(false);
      expect(resource.claim(a)).toBe(false);
      expect(resource.value).toBe(1);
    });

    it(`a grant that no replica has is undone and refused (${library.name})`, async () => {
      const { primary, link } = await linked();
      const manager = stopAfter(
        createLockManager(
          redisDriver(library.single(primary.port), { replicas: 1, replicaTimeoutMs: 100 }),
        ),
      );
      await (await manager.acquire("job")).release();
      link.blackhole("down");
      await expect(manager.acquire("job", { wait: 400 })).rejects.toThrow(BackendUnavailableError);
      const plain = stopAfter(createLockManager(redisDriver(library.single(primary.port))));
      expect((await plain.inspect("job")).held).toEqual([]);
      link.heal();
      link.reset();
      await until(async () =>
        manager.acquire("job", { wait: 300 }).then(
          async (lease) => (await lease.release()) === "released",
          () => false,
        ),
      );
    });

    it(`a renewal that no replica has does not count (${library.name})`, async () => {
      const { primary, link } = await linked();
      const manager = stopAfter(
        createLockManager(
          redisDriver(library.single(primary.port), { replicas: 1, replicaTimeoutMs: 100 }),
          { ttl: 1200 },
        ),
      );
      const lease = await manager.acquire("job");
      const shared = await manager.acquire("read", { mode: "shared" });
      await Promise.all([lease.renew(), shared.renew()]);
      link.blackhole("down");
      await expect(lease.renew()).rejects.toThrow(/0 of 1 replicas/);
      expect(lease.state).toBe("jeopardy");
      await until(() => lease.state === "lost" && shared.state === "lost", 2500);
    });

    it(`acquires that come together share one WAIT, and renewals do not stand behind it (${library.name})`, async () => {
      const { primary, link } = await linked();
      const manager = stopAfter(
        createLockManager(
          redisDriver(library.single(primary.port), { replicas: 1, replicaTimeoutMs: 1000 }),
          { ttl: "10s" },
        ),
      );
      const lease = await manager.acquire("held");
      const waits = async (): Promise<number> =>
        Number(
          /cmdstat_wait:calls=(\d+)/.exec(await primary.command("INFO", "commandstats"))?.[1] ?? 0,
        );
      const start = await waits();
      const many = Array.from({ length: 20 }, async (_, i) => manager.acquire(`many-${i}`));
      for (const each of await Promise.all(many)) await each.release();
      expect((await waits()) - start).toBeLessThanOrEqual(3);
      link.blackhole("down");
      const blocked = manager.acquire("blocked", { wait: 300 }).catch(() => undefined);
      await until(async () => (await manager.inspect("blocked")).held.length === 1);
      const begun = performance.now();
      await manager.inspect("held");
      // It has no acknowledgement either, but it was not held up by the other's.
      await expect(lease.renew()).rejects.toThrow(/0 of 1 replicas/);
      expect(performance.now() - begun).toBeLessThan(1700);
      await blocked;
    });

    it(`follows Sentinels to the new primary (${library.name})`, async () => {
      const { primary, replicas } = await startReplicated(1);
      stopAfter(primary);
      for (const replica of replicas) stopAfter(replica);
      const sentinel = stopAfter(await RedisServer.startSentinel("main", primary.port));
      await until(async () =>
        (await sentinel.command("SENTINEL", "REPLICAS", "main")).includes("127.0.0.1"),
      );
      const manager = stopAfter(
        createLockManager(redisDriver(library.sentinel(sentinel.port, "main"))),
      );
      const first = await manager.acquire("job", { ttl: "30s" });
      await first.release();
      await primary.kill();
      let second: typeof first | undefined;
      await until(async () => {
        second = await manager.acquire("job", { wait: 1000 }).catch(() => undefined);
        return second !== undefined;
      });
      expect(second !== undefined && second.token > first.token).toBe(true);
      expect(await second?.release()).toBe("released");
    });
  }

  it('"all" needs to be told how many there are', () => {
    const client = LIBRARIES[0].single(1);
    expect(() => redisDriver(client, { replicas: "all" })).toThrow(/expectedReplicas/);
    expect(() => redisDriver(client, { replicas: 0.5 })).toThrow(/replicas/);
    expect(() => redisDriver(client, { replicas: 1, expectedReplicas: 1 })).toThrow(/"all"/);
  });

  it('"all" waits for every replica that is connected', async () => {
    const { primary, replicas } = await startReplicated(2);
    stopAfter(primary);
    for (const replica of replicas) stopAfter(replica);
    const manager = stopAfter(
      createLockManager(
        redisDriver(LIBRARIES[0].single(primary.port), {
          replicas: "all",
          expectedReplicas: 1,
          replicaTimeoutMs: 100,
        }),
      ),
    );
    await (await manager.acquire("job")).release();
    replicas[1]?.pause();
    await expect(manager.acquire("job", { wait: 300 })).rejects.toThrow(/1 of 2 replicas/);
    replicas[1]?.resume();
  });
});
