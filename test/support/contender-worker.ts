import { redisDriver } from "../../src/drivers/redis/index.ts";
import { createLockManager, type FencedLease, LeaseLostError } from "../../src/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";

/** What a process is told to do. */
export interface ContenderOrder {
  readonly library: string;
  readonly port: number;
  /** One manager for each. */
  readonly ids: readonly number[];
  /** Until when, by the host's monotonic clock, in milliseconds. */
  readonly until: number;
  /** How many times longer everything takes. */
  readonly slowness: number;
}

/** For how long a holder believed, by the host's monotonic clock, and under which token. */
export interface Belief {
  readonly from: number;
  readonly to: number;
  readonly token: string;
}

const mono = (): number => Number(process.hrtime.bigint()) / 1e6;
const order = JSON.parse(process.argv[2] ?? "{}") as ContenderOrder;
const library = LIBRARIES.find(({ name }) => name === order.library) ?? LIBRARIES[0];
const beliefs: Belief[] = [];

async function contend(id: number): Promise<void> {
  const manager = createLockManager(redisDriver(library.single(order.port)), {
    ttl: 1200 * order.slowness,
    requestTimeout: 300 * order.slowness,
    drain: 1000 * order.slowness,
    trustSettings: true,
    holder: { label: `contender ${id}` },
  });
  while (mono() < order.until) {
    let lease: FencedLease | undefined;
    let over: number | undefined;
    try {
      lease = await manager.acquire("job", { wait: 1000 * order.slowness });
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
    beliefs.push({ from, to: Math.max(from, to), token: lease.token.toString() });
    await lease.release();
    off();
  }
  await manager.close();
}

await Promise.all(order.ids.map(contend));
process.stdout.write(JSON.stringify(beliefs));
