/** The PostgreSQL drivers beside other locks, on one server, in the same run. */
import { setTimeout as sleep } from "node:timers/promises";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { postgresAdvisoryDriver, postgresDriver } from "../../src/drivers/postgres/index.ts";
import { createLockManager } from "../../src/index.ts";
import { figure, median, say } from "../harness.ts";

const TURNS = 9;
const SLICE_MS = 300;
const HAND_OFFS = 20;

/** A lock by anybody. `take` waits for it, and resolves to what gives it back. */
interface Lock {
  readonly name: string;
  readonly take: (key: string) => Promise<() => PromiseLike<unknown>>;
}

type Peers = (url: string, kysely: unknown) => Promise<readonly Lock[]>;

/** One process's worth of each lock, and what ends it. */
async function side(url: string): Promise<{ locks: readonly Lock[]; end: () => Promise<void> }> {
  const kysely = new Kysely<object>({
    dialect: new PostgresDialect({ pool: new Pool({ connectionString: url }) }),
  });
  const { peers } = (await import(new URL("./postgres.mjs", import.meta.url).href)) as {
    readonly peers: Peers;
  };
  const [table, advisory] = [
    createLockManager(postgresDriver(new Pool({ connectionString: url })), { trustSettings: true }),
    createLockManager(postgresAdvisoryDriver(new Pool({ connectionString: url })), {
      trustSettings: true,
    }),
  ];
  const ours = [
    { name: "ringfence, lease table", acquire: async (key: string) => table.acquire(key) },
    { name: "ringfence, advisory locks", acquire: async (key: string) => advisory.acquire(key) },
  ].map(({ name, acquire }) => ({
    name,
    take: async (key: string) => {
      const lease = await acquire(key);
      return async () => lease.release();
    },
  }));
  const end = async (): Promise<void> => {
    for (const locks of [table, advisory]) await locks.close();
    await kysely.destroy();
  };
  return { locks: [...ours, ...(await peers(url, kysely))], end };
}

async function rate({ take }: Lock): Promise<number> {
  const begun = performance.now();
  let done = 0;
  for (; performance.now() - begun < SLICE_MS; done += 1) await (await take("alone"))();
  return (done * 1000) / (performance.now() - begun);
}

/** Milliseconds from a release on one side to the lock on the other, which has been waiting for a while. */
async function passed(from: Lock, to: Lock): Promise<number> {
  const giveBack = await from.take("passed");
  const waiting = to.take("passed").then((next) => ({ next, at: performance.now() }));
  await sleep(100 + 100 * Math.random());
  const begun = performance.now();
  await giveBack();
  const { next, at } = await waiting;
  await next();
  return at - begun;
}

/** Prints both comparisons. */
export async function beside(url: string): Promise<void> {
  const sides = [await side(url), await side(url)] as const;
  const [here, there] = [sides[0].locks, sides[1].locks];
  const rates = here.map((): number[] => []);
  for (const lock of here) await rate(lock);
  for (let turn = 0; turn < TURNS; turn += 1)
    for (const at of here.keys()) {
      const next = (at + turn) % here.length;
      const lock = here[next];
      if (lock !== undefined) rates[next]?.push(await rate(lock));
    }
  say(`\nbeside other locks on pg, ${TURNS} turns: acquire + release alone, and a hand-off`);
  for (const [at, lock] of here.entries()) {
    const other = there[at];
    const times: number[] = [];
    for (let i = 0; i < HAND_OFFS && other !== undefined; i += 1)
      times.push(await passed(i % 2 === 0 ? lock : other, i % 2 === 0 ? other : lock));
    const alone = figure(median(rates[at] ?? [])).padStart(6);
    say(`  ${lock.name.padEnd(28)} ${alone} /s, handed on in ${figure(median(times), 1)} ms`);
  }
  for (const { end } of sides) await end();
}
