import { expect, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { redlockDriver } from "../../src/drivers/redlock/index.ts";
import {
  BackendConfigError,
  createLockManager,
  InvalidArgumentError,
  LeaseLostError,
  QuorumError,
  UnsupportedError,
} from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, stopAfter, until } from "../fixtures/redis-server.ts";
import { RedlockServers } from "../fixtures/redlock-servers.ts";
import { size } from "../fixtures/soak.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const [library] = LIBRARIES;

describeRedis("Redlock over real servers", () => {
  const open = (servers: RedlockServers, options: { quorum?: number; ttl?: number } = {}) => {
    const { ttl = 10_000, ...driver } = options;
    return stopAfter(createLockManager(redlockDriver(servers.clients(), driver), { ttl }));
  };

  it("goes on while a minority is down, and says what each did when a quorum is", async () => {
    const servers = stopAfter(await RedlockServers.start());
    const locks = open(servers);
    const [a, b, c] = servers.all;
    await a?.kill();
    await b?.kill();
    const lease = await locks.acquire("job");
    expect(await lease.release()).toBe("released");
    await c?.kill();
    const error = await locks.tryAcquire("job").catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(QuorumError);
    const { votes, needed, causes, message } = error as QuorumError;
    expect([votes <= 2, needed, causes.length]).toEqual([true, 3, 3]);
    for (const [i, server] of [a, b, c].entries()) {
      expect(String(causes[i])).toContain(`127.0.0.1:${server?.port}`);
      expect(message).toContain(`127.0.0.1:${server?.port}`);
    }
    // What the two others had is undone: it would be in everybody's way when the third is back.
    await c?.restart();
    const again = await locks.acquire("job", { wait: 5000 });
    expect(again.token > lease.token).toBe(true);
    await again.release();
  });

  it("a stopped server costs an acquire and a release no time", async () => {
    const servers = stopAfter(await RedlockServers.start());
    const locks = open(servers, { ttl: 30_000 });
    await (await locks.acquire("warm")).release();
    const [stopped] = servers.all;
    stopped?.pause();
    try {
      for (let i = 0; i < 5; i += 1) {
        const startedAt = performance.now();
        await (await locks.acquire("job")).release();
        // The server has 2.5 s for its answer.
        expect(performance.now() - startedAt).toBeLessThan(2000);
      }
    } finally {
      stopped?.resume();
    }
  });

  it("an extension needs a quorum of the grant's own tenures, and makes nothing below one", async () => {
    const servers = stopAfter(await RedlockServers.start());
    const locks = open(servers, { ttl: 3000 });
    const lease = await locks.acquire("job", { keepalive: "off" });
    await heard(locks);
    const [a, b, c] = servers.all;
    // Two forget: the extension sets the lease again there, and counts them from the next time on.
    for (const server of [a, b]) await server?.command("FLUSHALL");
    await lease.renew();
    await until(async () => (await keys(servers)) === 5);
    await heard(locks);
    await lease.renew();
    await heard(locks);
    // Three forget at once: lost, and not made again.
    for (const server of [a, b, c]) await server?.command("FLUSHALL");
    await expect(lease.renew()).rejects.toThrow(LeaseLostError);
    expect(await keys(servers)).toBe(2);
    expect(await lease.release()).toBe("already-lost");
    const next = await locks.acquire("job");
    expect(next.token > lease.token).toBe(true);
  });

  it("servers that an extension set again count from the next extension on", async () => {
    const servers = stopAfter(await RedlockServers.start());
    const locks = open(servers, { ttl: 3000 });
    const lease = await locks.acquire("job", { keepalive: "off" });
    await heard(locks);
    const [a, b, c, d, e] = servers.all;
    for (const server of [a, b]) await server?.command("FLUSHALL");
    // The two that were set again in the first renewal count in the second, where two others have forgotten.
    await lease.renew();
    await until(async () => (await keys(servers)) === 5);
    await heard(locks);
    await lease.renew();
    await heard(locks);
    for (const server of [c, d]) await server?.command("FLUSHALL");
    await lease.renew();
    expect(lease.state).toBe("held");
    await e?.kill();
    expect(await lease.release()).toBe("released");
  });

  it("tells at the start that one server was given twice, or evicts, or is a Cluster's", async () => {
    const servers = stopAfter(await RedlockServers.start(3));
    const [a, b, c] = servers.all;
    const ports = [a?.port ?? 0, b?.port ?? 0, a?.port ?? 0];
    const twice = stopAfter(
      createLockManager(redlockDriver(ports.map((port) => library.single(port)))),
    );
    await expect(twice.tryAcquire("job")).rejects.toThrow("one and the same");
    await c?.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
    const evicting = open(servers);
    await expect(evicting.tryAcquire("job")).rejects.toThrow(BackendConfigError);
    await expect(evicting.tryAcquire("job")).rejects.toThrow(
      `maxmemory-policy (127.0.0.1:${c?.port}) is volatile-lru`,
    );
    const cheap = stopAfter(
      createLockManager(redlockDriver(servers.clients(), { efficiencyOnly: true })),
    );
    const lease = await cheap.acquire("job");
    expect("token" in lease).toBe(false);
    await lease.release();
    const cluster = stopAfter(
      createLockManager(redlockDriver([1, 2, 3].map((port) => library.cluster(port)))),
    );
    await expect(cluster.tryAcquire("job")).rejects.toThrow("not one for a Cluster");
  });

  it("refuses what a quorum cannot keep, with the arithmetic", async () => {
    const clients = [1, 2, 3, 4, 5].map((port) => library.single(port));
    expect(() => redlockDriver(clients, { quorum: 2 })).toThrow("2 + 2 = 4 is not more than 5");
    expect(() => redlockDriver(clients.slice(0, 4), { quorum: 2 })).toThrow(
      "2 + 2 = 4 is not more than 4",
    );
    expect(() => redlockDriver(clients.slice(0, 2))).toThrow(InvalidArgumentError);
    expect(() => redlockDriver([clients[0]!, clients[0]!, clients[1]!])).toThrow("same client");
    const locks = stopAfter(createLockManager(redlockDriver(clients)));
    const semaphore = locks.semaphore("slots", { permits: 2 } as never);
    await expect(semaphore.acquire()).rejects.toThrow(UnsupportedError);
    await expect(semaphore.acquire()).rejects.toThrow(
      "5 servers with 2 permits each are 10 places, a holder takes 3 of them, so 3 could hold",
    );
    await expect(locks.acquire("read", { mode: "shared" as never })).rejects.toThrow(
      "2 of 5 servers may miss any of them",
    );
  });

  it("shares servers with the driver for one server, and with itself in other namespaces", async () => {
    const servers = stopAfter(await RedlockServers.start(3));
    const [first] = servers.clients();
    const one = stopAfter(createLockManager(redisDriver(first!)));
    const many = open(servers);
    const other = stopAfter(
      createLockManager(redlockDriver(servers.clients()), { namespace: "other" }),
    );
    const leases = [
      await one.tryAcquire("job"),
      await many.tryAcquire("job"),
      await other.tryAcquire("job"),
    ];
    expect(leases.every((lease) => lease !== null)).toBe(true);
    expect((await many.query()).held.length).toBe(1);
    for (const lease of leases) await lease?.release();
  });

  for (const client of LIBRARIES)
    it(`a holder whose links are silent has given up before the next is granted (${client.name})`, async () => {
      const servers = stopAfter(await RedlockServers.start());
      const proxies: TcpProxy[] = [];
      for (const { port } of servers.all) proxies.push(stopAfter(await TcpProxy.to(port)));
      const cut = stopAfter(
        createLockManager(redlockDriver(proxies.map(({ port }) => client.single(port))), {
          ttl: 2000,
        }),
      );
      // Its reads may take a third of its ttl: a busy machine has no time for them in that of the other.
      const healthy = stopAfter(
        createLockManager(redlockDriver(servers.clients(client.name)), { ttl: "1m" }),
      );
      await healthy.inspect("warm");
      for (let round = 0; round < size(1, 25); round += 1) {
        const deadlines = new Map<string, number>();
        const off = cut.on("lost", (event) => {
          deadlines.set(event.name, wall(event.monoMs - event.lateMs));
        });
        const names = Array.from({ length: 8 }, (_, i) => `round-${round}-${i}`);
        const leases = await Promise.all(names.map(async (lock) => cut.acquire(lock)));
        for (const proxy of proxies) proxy.blackhole();
        await Promise.all(
          names.map(async (lock) => {
            const lease = await healthy.acquire(lock);
            const { sinceMs } = await healthy.inspect(lock);
            expect(lease.takenOver).toBe(true);
            expect(deadlines.get(lock)).toBeLessThan(sinceMs ?? 0);
            await lease.release();
          }),
        );
        for (const lease of leases)
          expect(() => {
            lease.assertHeld();
          }).toThrow(LeaseLostError);
        off();
        for (const proxy of proxies) {
          proxy.heal();
          proxy.reset();
        }
      }
    });
});

/** On how many servers somebody has the name `job`. */
/**
 * Waits for the answer of every server to what was sent before: a grant or a renewal needs a quorum's, and what a server
 * said that was not heard yet does not count. Answers come in order; twice, since one may be answered by a write-back.
 */
async function heard(locks: { inspect(name: string): Promise<unknown> }): Promise<void> {
  for (let i = 0; i < 2; i += 1) await locks.inspect("job");
}

async function keys(servers: RedlockServers): Promise<number> {
  const counts = await Promise.all(
    servers.all.map(async (server) =>
      server.number("HEXISTS", "redlock:ringfence:default:{job}:l", "g"),
    ),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function wall(mono: number): number {
  return performance.timeOrigin + performance.now() - Number(process.hrtime.bigint()) / 1e6 + mono;
}
