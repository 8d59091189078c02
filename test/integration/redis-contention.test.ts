import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { createLockManager } from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer, stopAfter, until } from "../fixtures/redis-server.ts";
import { size, untilEnough } from "../fixtures/soak.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";
import { bundle } from "../support/bundle.ts";
import type { Belief, ContenderOrder } from "../support/contender-worker.ts";

const CONTENDERS = 16;
/** In which they are, the same number in each. */
const PROCESSES = size(4, 16);

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
  let worker: Awaited<ReturnType<typeof bundle>> | undefined;
  beforeAll(async () => {
    worker = await bundle("test/support/contender-worker.ts");
  }, 60_000);
  afterAll(() => {
    worker?.remove();
  });

  /** One process, until it has ended. */
  async function run(order: ContenderOrder): Promise<readonly Belief[]> {
    const args = [worker?.file ?? "", JSON.stringify(order)];
    const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 26 });
    return JSON.parse(stdout) as readonly Belief[];
  }

  for (const library of LIBRARIES) {
    it(`${PROCESSES} processes on one name through a faulty network never believe it together (${library.name})`, async () => {
      const server = stopAfter(await RedisServer.start());
      const proxy = stopAfter(await TcpProxy.to(server.port));
      // Where a machine is so busy that nobody gets anywhere between two faults, all of it gets slower in the next round.
      let slowness = 1;
      let timer: NodeJS.Timeout | undefined;
      const fault = (): void => {
        const dice = Math.random();
        proxy.heal();
        if (dice < 0.3) proxy.reset();
        else if (dice < 0.45) proxy.blackhole(Math.random() < 0.5 ? "up" : "down");
        else if (dice < 0.6) proxy.delay("down", 20);
        timer = setTimeout(fault, 200 * slowness);
      };
      fault();
      const beliefs: Belief[] = [];
      const round = async (): Promise<number> => {
        const until = mono() + size(3000 * slowness, 60_000);
        const ids = Array.from({ length: CONTENDERS }, (_, id) => id);
        const orders = Array.from({ length: PROCESSES }, (_, at): ContenderOrder => {
          const own = ids.filter((id) => id % PROCESSES === at);
          return { library: library.name, port: proxy.port, ids: own, until, slowness };
        });
        for (const own of await Promise.all(orders.map(run))) beliefs.push(...own);
        slowness = Math.min(8, 2 * slowness);
        return beliefs.length;
      };
      await untilEnough(round, (seen) => seen > 3);
      clearTimeout(timer);
      proxy.heal();
      expect(beliefs.length).toBeGreaterThan(3);
      beliefs.sort((one, two) => one.from - two.from);
      for (const [i, next] of beliefs.entries()) {
        const before = beliefs[i - 1];
        if (before === undefined) continue;
        expect(before.to).toBeLessThanOrEqual(next.from);
        expect(BigInt(next.token) > BigInt(before.token)).toBe(true);
      }
      console.log(`${library.name}: ${beliefs.length} leases by ${PROCESSES} processes`);
      // What could not be given back in time is over with its ttl, or as dead waiters after one offer each.
      const after = stopAfter(createLockManager(redisDriver(library.single(server.port))));
      await (await after.acquire("job", { wait: "2m" })).release();
    }, 600_000);

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
