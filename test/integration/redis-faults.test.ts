import { expect, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import {
  BackendConfigError,
  BackendUnavailableError,
  createLockManager,
  LeaseLostError,
} from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import {
  describeRedis,
  RedisServer,
  startReplicated,
  stopAfter,
  until,
} from "../fixtures/redis-server.ts";
import { size } from "../fixtures/soak.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const wall = (mono: number): number =>
  performance.timeOrigin + performance.now() - monoNow() + mono;
const monoNow = (): number => Number(process.hrtime.bigint()) / 1e6;

describeRedis("Redis under faults", () => {
  for (const library of LIBRARIES) {
    it(`a holder whose link is silent has given up before the next is granted (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const proxy = stopAfter(await TcpProxy.to(server.port));
      const cut = stopAfter(
        createLockManager(redisDriver(library.single(proxy.port)), { ttl: 2000 }),
      );
      // Its reads may take a third of its ttl: a busy machine has no time for them in that of the other.
      const healthy = stopAfter(
        createLockManager(redisDriver(library.single(server.port)), { ttl: "1m" }),
      );
      await healthy.inspect("warm");
      const delays: number[] = [];
      for (let round = 0; round < size(1, 25); round += 1) {
        const deadlines = new Map<string, number>();
        const off = cut.on("lost", ({ name, monoMs, lateMs }) => {
          deadlines.set(name, wall(monoMs - lateMs));
          delays.push(lateMs);
        });
        const names = Array.from({ length: 8 }, (_, i) => `round-${round}-${i}`);
        const leases = await Promise.all(names.map(async (name) => cut.acquire(name)));
        const waiting = names.map(async (name) => {
          const lease = await healthy.acquire(name);
          return { lease, sinceMs: (await healthy.inspect(name)).sinceMs ?? 0 };
        });
        proxy.blackhole();
        for (const { lease, sinceMs } of await Promise.all(waiting)) {
          expect(lease.takenOver).toBe(true);
          expect(deadlines.get(lease.name)).toBeLessThan(sinceMs);
          await lease.release();
        }
        for (const lease of leases)
          expect(() => {
            lease.assertHeld();
          }).toThrow(LeaseLostError);
        off();
        proxy.heal();
        proxy.reset();
      }
      delays.sort((a, b) => a - b);
      const [middle, worst] = [delays[delays.length >> 1], delays.at(-1)].map((ms) =>
        ms?.toFixed(1),
      );
      console.log(
        `${library.name}: told ${middle} ms after its deadline in the median, ${worst} ms at worst, of ${delays.length}`,
      );
    });

    it(`FLUSHALL under a holder is a loss, and nothing is made again (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const manager = stopAfter(
        createLockManager(redisDriver(library.single(server.port)), { ttl: 1000 }),
      );
      const lease = await manager.acquire("job");
      const lost = new Promise((resolve) =>
        manager.on("lost", ({ reason }) => {
          resolve(reason);
        }),
      );
      await server.command("FLUSHALL");
      expect(await lost).toBe("expired");
      expect(await server.number("DBSIZE")).toBe(0);
      expect(await lease.release()).toBe("already-lost");
      const next = await manager.acquire("job");
      expect(next.token > lease.token).toBe(true);
    });

    it(`scripts that the server forgot are sent again (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const manager = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      const leases = [await manager.acquire("a"), await manager.acquire("b")];
      await server.command("SCRIPT", "FLUSH");
      await Promise.all(leases.map(async (lease) => lease.renew()));
      await server.command("SCRIPT", "FLUSH");
      for (const lease of leases) expect(await lease.release()).toBe("released");
      await server.command("SCRIPT", "FLUSH");
      expect((await manager.inspect("a")).held).toEqual([]);
    });

    it(`a client that would queue and retry for ever leaves no ghost (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const manager = stopAfter(createLockManager(redisDriver(library.unsafe(server.port))));
      await manager.inspect("job");
      await server.kill();
      const begun = performance.now();
      await expect(manager.acquire("job", { wait: 500 })).rejects.toThrow(BackendUnavailableError);
      expect(performance.now() - begun).toBeLessThan(5000);
      await server.restart();
      await manager.inspect("job");
      await new Promise((resolve) => setTimeout(resolve, 300));
      const { held, pending } = await manager.inspect("job");
      expect([held, pending]).toEqual([[], []]);
      await (await manager.acquire("job", { wait: 0 })).release();
    });

    it(`comes back by itself after the server was away (${library.name})`, async () => {
      // The kernel keeps what was written, so that a disk that is slow to sync need hold nothing up.
      const server = stopAfter(
        await RedisServer.start("--appendonly", "yes", "--appendfsync", "no"),
      );
      const manager = stopAfter(
        createLockManager(redisDriver(library.single(server.port)), { ttl: "1m" }),
      );
      const lease = await manager.acquire("job");
      await server.kill();
      await expect(lease.renew()).rejects.toThrow(BackendUnavailableError);
      await server.restart();
      await until(async () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      );
      expect(lease.state).toBe("held");
      expect(await lease.release()).toBe("released");
    });

    it(`a wake-up that is lost costs time, and no more (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const proxy = stopAfter(await TcpProxy.to(server.port));
      proxy.lose("down", (data) => data.includes("ringfence:wake") && data.includes("message"));
      const holder = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      const waiter = stopAfter(createLockManager(redisDriver(library.single(proxy.port))));
      const lease = await holder.acquire("job", { ttl: 1000, keepalive: "off" });
      const waiting = waiter.acquire("job", { ttl: 5000 });
      await until(async () => (await holder.inspect("job")).pending.length === 1);
      await lease.release();
      const begun = performance.now();
      await (await waiting).release();
      expect(performance.now() - begun).toBeLessThan(4000);
    });

    it(`what the server says is told by its code, at once where asking again is vain (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start("--requirepass", "secret"));
      const open = (password?: string) =>
        stopAfter(
          createLockManager(
            redisDriver(library.single(server.port, password === undefined ? {} : { password })),
            { trustSettings: true },
          ),
        );
      const begun = performance.now();
      await expect(open().acquire("job")).rejects.toThrow(BackendConfigError);
      await expect(open("wrong").acquire("job")).rejects.toThrow(/WRONGPASS/);
      // An outage is waited out for five seconds.
      expect(performance.now() - begun).toBeLessThan(4000);
      await (await open("secret").acquire("job")).release();
    });

    it(`a full server refuses, and says so (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const manager = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      const lease = await manager.acquire("held");
      await server.command("CONFIG", "SET", "maxmemory", "1");
      await expect(manager.acquire("job", { wait: 200 })).rejects.toThrow(/OOM/);
      await server.command("CONFIG", "SET", "maxmemory", "0");
      await lease.renew();
      expect(await lease.release()).toBe("released");
    });

    it(`a replica grants nothing (${library.name})`, async () => {
      const { primary, replicas } = await startReplicated(1);
      stopAfter(primary);
      for (const replica of replicas) stopAfter(replica);
      const port = replicas[0]?.port ?? 0;
      const trusting = stopAfter(
        createLockManager(redisDriver(library.single(port)), { trustSettings: true }),
      );
      await expect(trusting.acquire("job", { wait: 200 })).rejects.toThrow(/READONLY/);
      const manager = stopAfter(createLockManager(redisDriver(library.single(port))));
      await expect(manager.acquire("job")).rejects.toThrow(/role is replica/);
    });
  }
});
