import { expect, it } from "vitest";
import { type RedisCapabilities, redisDriver } from "../../src/drivers/redis/index.ts";
import {
  createLockManager,
  type FencedLease,
  LeaseLostError,
  type LockManager,
} from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer, stopAfter, until } from "../fixtures/redis-server.ts";
import { size } from "../fixtures/soak.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

interface Interval {
  readonly from: number;
  readonly to: number;
  readonly token: bigint;
}

const mono = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Script calls that clients sent, without what scripts call inside. */
async function calls(server: RedisServer): Promise<number> {
  const stats = await server.command("INFO", "commandstats");
  return [...stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}

describeRedis("contention on Redis", () => {
  for (const library of LIBRARIES) {
    it(`16 managers on one name through a faulty network never believe it together (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const proxy = stopAfter(await TcpProxy.to(server.port));
      const intervals: Interval[] = [];
      const end = mono() + size(3000, 60_000);
      const faults = setInterval(() => {
        const dice = Math.random();
        proxy.heal();
        if (dice < 0.3) proxy.reset();
        else if (dice < 0.45) proxy.blackhole(Math.random() < 0.5 ? "up" : "down");
        else if (dice < 0.6) proxy.delay("down", 20);
      }, 200);
      const contend = async (id: number): Promise<LockManager<RedisCapabilities>> => {
        const manager = createLockManager(redisDriver(library.single(proxy.port)), {
          ttl: 1200,
          requestTimeout: 300,
          drain: 1000,
          trustSettings: true,
          holder: { label: `contender ${id}` },
        });
        while (mono() < end) {
          let lease: FencedLease | undefined;
          let over: number | undefined;
          try {
            lease = await manager.acquire("job", { wait: 1000 });
          } catch {
            continue;
          }
          const off = manager.on("lost", ({ monoMs, lateMs }) => {
            over = monoMs - lateMs;
          });
          const from = mono();
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
          let to = mono();
          try {
            lease.assertHeld();
          } catch (error) {
            if (!(error instanceof LeaseLostError)) throw error;
            // What a holder believes ends at its deadline, however late it looks.
            to = Math.min(to, over ?? to);
          }
          intervals.push({ from, to: Math.max(from, to), token: lease.token });
          await lease.release();
          off();
        }
        return manager;
      };
      const contenders = Array.from({ length: 16 }, async (_, id) => contend(id));
      const managers = await Promise.all(contenders);
      clearInterval(faults);
      proxy.heal();
      await Promise.all(managers.map(async (manager) => manager.close()));
      intervals.sort((a, b) => a.from - b.from);
      expect(intervals.length).toBeGreaterThan(3);
      for (const [i, next] of intervals.entries()) {
        const before = intervals[i - 1];
        if (before === undefined) continue;
        expect(before.to).toBeLessThanOrEqual(next.from);
        expect(next.token > before.token).toBe(true);
      }
      // What could not be given back in time is over with its ttl, or as a dead waiter after one offer each.
      const after = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      await (await after.acquire("job", { wait: 5000 })).release();
    });

    it(`30 processes are served in the order of their arrival, with few commands (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const managers = Array.from({ length: 30 }, () =>
        stopAfter(
          createLockManager(redisDriver(library.single(server.port)), {
            handOff: "off",
            ttl: "30s",
            trustSettings: true,
          }),
        ),
      );
      const watcher = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      const first = await watcher.acquire("job", { ttl: "30s" });
      const order: number[] = [];
      const gaps: number[] = [];
      let freeSince = 0;
      const work: Promise<void>[] = [];
      for (const [i, manager] of managers.entries()) {
        const wait = async (): Promise<void> => {
          const lease = await manager.acquire("job");
          gaps.push(mono() - freeSince);
          order.push(i);
          await new Promise((resolve) => setTimeout(resolve, 20));
          freeSince = mono();
          await lease.release();
        };
        work.push(wait());
        await until(async () => (await watcher.inspect("job")).pending.length === i + 1);
      }
      const before = await calls(server);
      freeSince = mono();
      await first.release();
      await Promise.all(work);
      expect(order).toEqual(managers.map((_, i) => i));
      expect(((await calls(server)) - before) / managers.length).toBeLessThanOrEqual(4);
      const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
      console.log(`${library.name}: ${mean.toFixed(2)} ms a hand-off`);
    });

    it(`no wake-up is lost (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const managers = [1, 2, 3].map(() =>
        stopAfter(
          createLockManager(redisDriver(library.single(server.port)), {
            handOff: "off",
            ttl: "1m",
            trustSettings: true,
          }),
        ),
      );
      const cycles = size(300, 5000);
      let worst = 0;
      // A lost one would show as a wait until the poll, and that is a whole ttl away.
      await Promise.all(
        managers.map(async (manager) => {
          for (let i = 0; i < cycles / managers.length; i += 1) {
            const begun = mono();
            const lease = await manager.acquire("job");
            worst = Math.max(worst, mono() - begun);
            await lease.release();
          }
        }),
      );
      expect(worst).toBeLessThan(10_000);
    });
  }
});
