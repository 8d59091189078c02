import { expect, it } from "vitest";
import { type RedisCapabilities, redisDriver } from "../../src/drivers/redis/index.ts";
import { createLockManager, type LockManager } from "../../src/index.ts";
import { type ClientLibrary, LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer, stopAfter, until } from "../fixtures/redis-server.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const isScript = (data: string): boolean => /evalsha/i.test(data);

/** A server that knows the scripts, a proxy before it, a manager through the proxy and one beside it. */
async function world(library: ClientLibrary) {
  const server = stopAfter(await RedisServer.start());
  const proxy = stopAfter(await TcpProxy.to(server.port));
  const other = stopAfter(createLockManager(redisDriver(library.single(server.port))));
  const known = await other.acquire("known");
  await known.renew();
  await known.release();
  const permit = await other.semaphore("known permits", { permits: 1 }).acquire();
  await permit.renew();
  await permit.release();
  const manager = stopAfter(
    createLockManager(redisDriver(library.single(proxy.port)), { requestTimeout: 300, ttl: 2000 }),
  );
  // Connected, however long that takes on a busy machine: the short limit is for what comes after.
  await until(async () =>
    manager.inspect("job").then(
      () => true,
      () => false,
    ),
  );
  return { server, proxy, manager, other };
}

async function isFree(manager: LockManager<RedisCapabilities>, name: string): Promise<boolean> {
  const { held, pending } = await manager.inspect(name);
  return held.length === 0 && pending.length === 0;
}

describeRedis("a lost reply", () => {
  for (const library of LIBRARIES) {
    for (const [nth, step] of ["acquire", "renew", "release"].entries())
      it(`to ${step} loses no lease and leaves no holder behind (${library.name})`, async () => {
        const { proxy, manager, other } = await world(library);
        const swallowed = proxy.swallowReply(isScript, nth + 1);
        const lease = await manager.acquire("job");
        const before = await other.inspect("job");
        expect(before.held.map((held) => held.grantId)).toEqual([lease.grantId]);
        expect(before.token).toBe(lease.token);
        await lease.renew().catch(() => undefined);
        expect(lease.state).not.toBe("lost");
        // Whoever hears nothing of its release may not claim to know; the lock is free all the same.
        const outcomes = step === "release" ? ["released", "unknown"] : ["released"];
        expect(outcomes).toContain(await lease.release());
        await swallowed;
        expect(await isFree(other, "job")).toBe(true);
        const next = await other.acquire("job", { wait: 100 });
        expect(next.token > lease.token).toBe(true);
        await next.release();
      });

    // Every reply of one whole life at a name that others want as well: the quick ask that finds it held, the place in the
    // queue, the confirmation of the offer, a renewal, the release that offers it on.
    for (let nth = 1; nth <= 5; nth += 1)
      it(`number ${nth} of a waiter's life loses nothing and leaves nobody behind (${library.name})`, async () => {
        const { proxy, manager, other, server } = await world(library);
        const third = stopAfter(createLockManager(redisDriver(library.single(server.port))));
        const held = await other.acquire("job");
        const swallowed = proxy.swallowReply(isScript, nth);
        const waiting = manager.acquire("job");
        await until(async () => (await other.inspect("job")).pending.length === 1);
        const next = third.acquire("job", { ttl: 5000 });
        await until(async () => (await other.inspect("job")).pending.length === 2);
        await held.release();
        const lease = await waiting;
        expect(lease.token > held.token).toBe(true);
        expect((await other.inspect("job")).held.map(({ grantId }) => grantId)).toEqual([
          lease.grantId,
        ]);
        await lease.renew().catch(() => undefined);
        expect(lease.state).not.toBe("lost");
        expect(["released", "unknown"]).toContain(await lease.release());
        const last = await next;
        await swallowed;
        expect(last.token > lease.token).toBe(true);
        expect(await last.release()).toBe("released");
        expect(await isFree(other, "job")).toBe(true);
      });

    it(`to a place in the queue keeps that place (${library.name})`, async () => {
      const { proxy, manager, other } = await world(library);
      const held = await other.acquire("job");
      const swallowed = proxy.swallowReply(isScript);
      const waiting = manager.acquire("job");
      await swallowed;
      await until(async () => (await other.inspect("job")).pending.length === 1);
      await held.release();
      const lease = await waiting;
      expect(await lease.release()).toBe("released");
      expect(await isFree(other, "job")).toBe(true);
    });

    it(`to an acquire that is given up leaves nobody holding (${library.name})`, async () => {
      const { proxy, manager, other } = await world(library);
      const swallowed = proxy.swallowReply(isScript);
      const giveUp = new AbortController();
      const acquiring = manager.acquire("job", { signal: giveUp.signal });
      await swallowed;
      giveUp.abort();
      await expect(acquiring).rejects.toThrow();
      await until(async () => isFree(other, "job"), 1500);
    });

    it(`and a packet that comes late grant nothing to nobody (${library.name})`, async () => {
      const { proxy, manager, other } = await world(library);
      const held = proxy.hold("up", isScript);
      const acquiring = manager.acquire("job");
      await held.caught;
      const lease = await acquiring;
      expect(await lease.release()).toBe("released");
      held.release();
      const next = await other.acquire("job", { wait: 100, ttl: 1000 });
      await next.release();
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(await isFree(other, "job")).toBe(true);
    });
  }
});
