import { expect, it } from "vitest";
import type { Driver, Finding } from "../../src/core/driver.ts";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { BackendConfigError, createLockManager } from "../../src/index.ts";
import { processIdentity } from "../../src/runtime/process-identity.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import {
  describeRedis,
  RedisServer,
  startReplicated,
  stopAfter,
} from "../fixtures/redis-server.ts";

async function probe(driver: Driver): Promise<Map<string, Finding>> {
  const backend = await driver.open({
    clock: systemClock,
    random: systemRandom,
    host: processIdentity(),
    namespace: "default",
    notify: () => undefined,
  });
  const { signal } = new AbortController();
  const findings = await backend.probe({ timeoutMs: 5000, signal });
  await backend.close();
  return new Map(findings.map((finding) => [finding.name, finding]));
}

describeRedis("the probe of Redis", () => {
  for (const library of LIBRARIES) {
    it(`tells version, persistence, eviction, replicas and clock (${library.name})`, async () => {
      const server = stopAfter(
        await RedisServer.start("--appendonly", "yes", "--appendfsync", "always"),
      );
      const found = await probe(redisDriver(library.single(server.port)));
      expect(found.get("version")?.value).toMatch(/^\d+\.\d+/);
      expect(found.get("persistence")).toMatchObject({ verdict: "ok" });
      expect(found.get("maxmemory-policy")).toMatchObject({ value: "noeviction", verdict: "ok" });
      expect(found.get("replicas")).toMatchObject({ value: "none", verdict: "ok" });
      expect(found.get("clock")).toMatchObject({ verdict: "ok" });
      await server.command("CONFIG", "SET", "appendfsync", "everysec");
      const weaker = await probe(redisDriver(library.single(server.port)));
      expect(weaker.get("persistence")?.verdict).toBe("warn");
      await server.command("CONFIG", "SET", "appendonly", "no");
      const none = await probe(redisDriver(library.single(server.port)));
      expect(none.get("persistence")).toMatchObject({ value: "none", verdict: "warn" });
    });

    it(`refuses a server that may evict locks, but for efficiency (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start("--maxmemory-policy", "volatile-lru"));
      const manager = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      const refusal = manager.acquire("job");
      await expect(refusal).rejects.toThrow(BackendConfigError);
      await expect(refusal).rejects.toThrow(/volatile-lru.*noeviction/);
      const efficient = stopAfter(
        createLockManager(redisDriver(library.single(server.port), { efficiencyOnly: true })),
      );
      const lease = await efficient.acquire("job");
      expect(lease).not.toHaveProperty("token");
      expect(await lease.release()).toBe("released");
    });
  }

  it("tells how far replicas are behind, and refuses to need more than there are", async () => {
    const { primary, replicas } = await startReplicated(1);
    stopAfter(primary);
    for (const replica of replicas) stopAfter(replica);
    const client = LIBRARIES[0].single(primary.port);
    const plain = await probe(redisDriver(client));
    expect(plain.get("replicas")).toMatchObject({ verdict: "warn" });
    expect(plain.get("replicas")?.value).toMatch(/^1 connected, at most \d+ bytes behind$/);
    const one = await probe(redisDriver(client, { replicas: 1 }));
    expect(one.get("replicas")?.verdict).toBe("ok");
    const two = await probe(redisDriver(client, { replicas: 2 }));
    expect(two.get("replicas")?.verdict).toBe("refuse");
  });

  it("works for a user who may do no more than lock", async () => {
    const server = stopAfter(await RedisServer.start());
    const rights = "+eval +evalsha +time +hmget +hget +hset +hdel +hgetall +hlen +hincrby +exists";
    const sorted = "+zadd +zrem +zrange +zrangebyscore +zcard +zscore +pttl +pexpire +pexpireat";
    await server.command(
      ...["ACL", "SETUSER", "locker", "on", ">secret", "~ringfence:*", "resetchannels"],
      ...`${rights} ${sorted} +publish +subscribe +ping +select +hello +client`.split(" "),
    );
    const client = LIBRARIES[0].single(server.port, { username: "locker", password: "secret" });
    const manager = stopAfter(createLockManager(redisDriver(client), { ttl: 500 }));
    const other = stopAfter(createLockManager(redisDriver(client), { ttl: 500 }));
    const lease = await manager.acquire("job");
    // Without a right to any channel nobody is woken, and a waiter polls.
    const waiting = other.acquire("job");
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await lease.release()).toBe("released");
    await (await waiting).release();
  });
});
