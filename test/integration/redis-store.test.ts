import { afterAll, beforeAll, expect, it } from "vitest";
import { MAX_TOKEN } from "../../src/core/fencing-token.ts";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { KeySpace, slotOf } from "../../src/drivers/redis/keys.ts";
import { createLockManager } from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer, stopAfter, until } from "../fixtures/redis-server.ts";
import { size } from "../fixtures/soak.ts";

const [library] = LIBRARIES;
const WEEK_MS = 7 * 24 * 3_600_000;

describeRedis("what Redis keeps", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  const open = (namespace: string) =>
    stopAfter(createLockManager(redisDriver(library.single(server.port)), { namespace }));
  const ttlOf = async (key: string): Promise<number> => server.number("PTTL", key);

  it("of an idle name is one key, for a week or twice the longest ttl", async () => {
    const manager = open("idle");
    const [key] = new KeySpace("", "idle").of("job");
    await (await manager.acquire("job", { ttl: "30d" })).release();
    expect(await ttlOf(key)).toBeGreaterThan(59 * 24 * 3_600_000);
    // A shorter ttl does not shorten what an older lease needs.
    await (await manager.acquire("job", { ttl: "1s" })).release();
    expect(await ttlOf(key)).toBeGreaterThan(59 * 24 * 3_600_000);
    await (await manager.acquire("short", { ttl: "1s" })).release();
    const [short] = new KeySpace("", "idle").of("short");
    const ttl = await ttlOf(short);
    expect(ttl).toBeGreaterThan(WEEK_MS - 5000);
    // It is set an hour ahead, so that few acquires must set it.
    expect(ttl).toBeLessThanOrEqual(WEEK_MS + 3_600_000 + 2000);
    expect(await server.command("KEYS", "ringfence:idle:*")).toMatch(/^\*2\r\n/);
  });

  it("beside the lock key is gone soon, and every key has a ttl", async () => {
    const manager = open("aside");
    const others = [1, 2, 3].map(() => open("aside"));
    const held = await manager.acquire("job");
    const waiting = others.map(async (other) => other.acquire("job", { wait: 300 }).catch(() => 0));
    const shared = await manager.acquire("read", { mode: "shared" });
    const permit = await manager.semaphore("slots", { permits: 3 }).acquire();
    await until(async () => (await manager.inspect("job")).pending.length === 3);
    for (const name of ["job", "read", "slots"])
      for (const key of new KeySpace("", "aside").of(name))
        expect(await ttlOf(key), key).not.toBe(-1);
    await Promise.all(waiting);
    for (const lease of [held, shared, permit]) expect(await lease.release()).toBe("released");
    const keys = await server.command("KEYS", "ringfence:aside:*");
    expect(keys).toMatch(/^\*3\r\n/);
  });

  it("does not grow with the ids that came and went", async () => {
    const manager = open("sweep");
    const held = await manager.acquire("job");
    const [, queue, , records] = new KeySpace("", "sweep").of("job");
    for (let i = 0; i < size(200, 5000); i += 1) {
      const gone = new AbortController();
      const waiting = manager.acquire("job", { signal: gone.signal }).catch(() => undefined);
      gone.abort();
      await waiting;
    }
    await until(async () => (await manager.inspect("job")).pending.length === 0);
    expect(await server.number("ZCARD", queue)).toBe(0);
    // Only tombstones: of asks that were under way when they were given up.
    expect(await server.number("HLEN", records)).toBeLessThanOrEqual(size(200, 5000));
    await held.release();
  });

  it("counts tokens up to the largest one exactly, and then refuses", async () => {
    const manager = open("tokens");
    for (const above of [2n ** 53n - 1n, 2n ** 53n, 999_999_999_999_999n, 10n ** 18n - 1n]) {
      const name = `above-${above}`;
      const lease = await manager.acquire(name, { above });
      expect(lease.token > above).toBe(true);
      // Below the clock the clock counts, above it every number.
      const far = above > 2n ** 52n;
      if (far) expect(lease.token).toBe(above + 1n);
      expect((await manager.inspect(name)).token).toBe(lease.token);
      await lease.release();
      const next = await manager.acquire(name);
      expect(far ? next.token === lease.token + 1n : next.token > lease.token).toBe(true);
      expect(next.previousToken).toBe(lease.token);
      await next.release();
    }
    const last = await manager.acquire("job", { above: MAX_TOKEN - 1n });
    expect(last.token).toBe(MAX_TOKEN);
    await last.release();
    await expect(manager.acquire("job")).rejects.toThrow(/used up/);
  });

  it("is under the user's key prefix, by both libraries alike", async () => {
    for (const each of LIBRARIES) {
      const keyPrefix = `${each.name}:`;
      const client = each.single(server.port, { keyPrefix });
      const manager = stopAfter(createLockManager(redisDriver(client)));
      const lease = await manager.acquire("a*b");
      expect(await server.command("KEYS", `${each.name}:*`)).toContain(
        `${each.name}:ringfence:default:{a%2Ab}:l`,
      );
      expect((await manager.query({ prefix: "a*" })).held.map(({ name }) => name)).toEqual(["a*b"]);
      await lease.release();
    }
    expect(() => new KeySpace("{}", "default")).toThrow(/empty hash tag/);
  });

  it("shows idle names to nobody, and names in pages", async () => {
    const manager = open("pages");
    for (let i = 0; i < 250; i += 1)
      await (await manager.acquire(`idle-${i}`, { ttl: "1s" })).release();
    const leases = await Promise.all(
      Array.from({ length: 30 }, async (_, i) => manager.acquire(`idle-${i * 8}`)),
    );
    const { held, truncated } = await manager.query({ limit: 30 });
    expect(truncated).toBe(false);
    expect(new Set(held.map(({ name }) => name))).toEqual(new Set(leases.map(({ name }) => name)));
    expect((await manager.query({ limit: 7 })).truncated).toBe(true);
    await Promise.all(leases.map(async (lease) => lease.release()));
  });

  it("hashes keys to the slots of the specification", () => {
    expect(slotOf("123456789")).toBe(0x31c3 % 16_384);
    expect(slotOf("{user1000}.following")).toBe(slotOf("user1000"));
    expect(slotOf("foo{}{bar}")).not.toBe(slotOf("bar"));
    expect(slotOf("foo{{bar}}zap")).toBe(slotOf("{bar"));
  });

  it("leaves a user's client alone, and closes every connection of its own", async () => {
    const before = await server.info("connected_clients");
    for (const each of LIBRARIES) {
      const manager = createLockManager(redisDriver(each.single(server.port)));
      await (await manager.acquire("job")).release();
      await manager.close();
    }
    await until(async () => (await server.info("connected_clients")) === before);
  });
});
