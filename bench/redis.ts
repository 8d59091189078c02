// The Redis driver against the least that a client can send, and against other locks, over the same client libraries.
import { createLockManager, type LockManager } from "ringfence";
import { type RedisCapabilities, redisDriver } from "ringfence/redis";
import { figure, median, now, say, shares } from "./harness.ts";
import { BenchServer, type Lock, peersOn, rawOn } from "./peers/redis.ts";

const TURNS = 15;
const RUN_MS = 250;
const HAND_OFFS = 30;
const HOLD_MS = 20;
const WAITERS = 32;
const CROWD_MS = 2000;
const LEASES = 50_000;
const RENEW_MS = 10_000;

const server = await BenchServer.start();
const [raw, peers] = [await rawOn(server), await peersOn(server)];
const clients = { ioredis: server.ioredis(), "node-redis": await server.nodeRedis() };
const managers: LockManager<RedisCapabilities>[] = [];

function manager(
  library: Lock["library"],
  options: { readonly handOff?: "off" } = {},
): LockManager<RedisCapabilities> {
  const made = createLockManager(redisDriver(clients[library]), options);
  managers.push(made);
  return made;
}

function ours(library: Lock["library"], locks = manager(library)): Lock {
  return {
    name: "ringfence",
    library,
    take: async (key) => {
      const lease = await locks.acquire(key);
      return async () => lease.release();
    },
  };
}

/** What so many callers, each on names of their own, come to: cycles a second, and processor time a cycle on both sides. */
async function rate({ take }: Lock, callers: number): Promise<Rate> {
  const [before, cpu, started] = [await server.cpuMs(), process.cpuUsage(), now()];
  let cycles = 0;
  const caller = async (_: unknown, me: number): Promise<void> => {
    for (; now() - started < RUN_MS; cycles += 1) await (await take(`alone-${me}`))();
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const second = (cycles * 1000) / (now() - started);
  const { user, system } = process.cpuUsage(cpu);
  const serverUs = ((await server.cpuMs()) - before) * 1000;
  return { second, clientUs: (user + system) / cycles, serverUs: serverUs / cycles };
}

interface Rate {
  readonly second: number;
  readonly clientUs: number;
  readonly serverUs: number;
}

/** All locks in turns, each time in another order: what counts is the median of the ratios of the same turn. */
async function alone(library: Lock["library"], callers: number): Promise<void> {
  const locks = [...raw, ours(library), ...peers].filter((lock) => lock.library === library);
  const rates = locks.map((): Rate[] => []);
  for (const lock of locks) await rate(lock, callers);
  for (let turn = 0; turn < TURNS; turn += 1)
    for (let i = 0; i < locks.length; i += 1) {
      const at = (i + turn) % locks.length;
      const lock = locks[at];
      if (lock !== undefined) rates[at]?.push(await rate(lock, callers));
    }
  say(`\nuncontended on ${library}, ${callers} at a time (cycles a second, ${TURNS} turns)`);
  for (const [i, { name }] of locks.entries()) {
    const own = rates[i] ?? [];
    const ratios = own.map(({ second }, turn) => second / (rates[0]?.[turn]?.second ?? NaN));
    const middle = (pick: (one: Rate) => number, digits = 0): string =>
      figure(median(own.map(pick)), digits).padStart(7);
    const cpu = `${middle((one) => one.clientUs, 1)} + ${middle((one) => one.serverUs, 1)} us of processor`;
    say(
      `  ${name.padEnd(24)} median ${middle((one) => one.second)}  of SET NX PX ${figure(median(ratios), 2)} ${cpu}`,
    );
    say(`    [${own.map(({ second }) => figure(second)).join("  ")}]`);
  }
  say("  target: ringfence at least 0.85 of SET NX PX, and above every peer");
}

/** So many callers ask one after the other, and each holds for a while. */
async function handOffs(name: string, locks: readonly Lock[]): Promise<void> {
  const key = `handed-${name}`;
  const [order, gaps]: [number[], number[]] = [[], []];
  let free = 0;
  const first = await locks[0]?.take(key);
  const work = locks.map(async ({ take }, i) => {
    await new Promise((resolve) => setTimeout(resolve, 10 * i));
    const giveBack = await take(key);
    gaps.push(now() - free);
    order.push(i);
    await new Promise((resolve) => setTimeout(resolve, HOLD_MS));
    free = now();
    await giveBack();
  });
  await new Promise((resolve) => setTimeout(resolve, 10 * locks.length + 100));
  // From here on: all have asked, what is counted are the hand-offs.
  const told = await server.count();
  free = now();
  await first?.();
  await Promise.all(work);
  const commands = (await told()) / locks.length;
  let inversions = 0;
  for (const [i, a] of order.entries())
    for (const b of order.slice(i + 1)) if (b < a) inversions += 1;
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const facts = `mean ${figure(mean, 2)} ms, worst ${figure(Math.max(...gaps), 1)}, ${figure(commands, 1)} commands`;
  say(
    `  ${name.padEnd(36)} ${facts}, ${inversions} of ${(order.length * (order.length - 1)) / 2} inverted`,
  );
}

/** So many callers of one process at one name, with nothing to do under the lock. */
async function crowd({ name, library, take }: Lock): Promise<void> {
  const counts = new Array<number>(WAITERS).fill(0);
  const started = now();
  const caller = async (_: unknown, me: number): Promise<void> => {
    while (now() - started < CROWD_MS) {
      const giveBack = await take(`crowd-${name}-${library}`);
      if (now() - started < CROWD_MS) counts[me] = (counts[me] ?? 0) + 1;
      await giveBack();
    }
  };
  await Promise.all(counts.map(caller));
  const grants = (counts.reduce((sum, count) => sum + count, 0) * 1000) / CROWD_MS;
  const { least, most } = shares(counts);
  const label = `${name} on ${library}`.padEnd(36);
  say(
    `  ${label} ${figure(grants).padStart(7)}/s, shares ${figure(least, 2)} to ${figure(most, 2)}`,
  );
}

/** Many leases at once: what their renewal takes of one core, and how late it ever is. */
async function held(library: Lock["library"]): Promise<void> {
  const locks = manager(library);
  for (let at = 0; at < LEASES; at += 250)
    await Promise.all(
      Array.from({ length: 250 }, async (_, i) => locks.acquire(`held-${library}-${at + i}`)),
    );
  await new Promise((resolve) => setTimeout(resolve, RENEW_MS));
  const [cpu, started] = [process.cpuUsage(), now()];
  await new Promise((resolve) => setTimeout(resolve, 2 * RENEW_MS));
  const used = process.cpuUsage(cpu);
  const share = (used.user + used.system) / 10 / (now() - started);
  const [last, late] = [new Map<string, number>(), [] as number[]];
  const off = locks.on("renewed", ({ name, deadlineMs }) => {
    const before = last.get(name);
    if (before !== undefined) late.push(deadlineMs - before - RENEW_MS);
    last.set(name, deadlineMs);
  });
  let lost = 0;
  locks.on("lost", () => (lost += 1));
  await new Promise((resolve) => setTimeout(resolve, 2.5 * RENEW_MS));
  off();
  const worst = late.reduce((most, ms) => Math.max(most, ms), -Infinity);
  say(
    `\n${figure(LEASES)} leases held on ${library}, ttl 30 s, renewed every ${RENEW_MS / 1000} s`,
  );
  say(`  ${figure(share, 1)} % of one core; target: under 15 %`);
  say(
    `  ${figure(late.length)} renewals, the latest ${figure(worst)} ms after it was due, ${lost} leases lost; target: 2,000 ms`,
  );
}

const parts: Record<string, () => Promise<void>> = {
  alone: async () => {
    for (const library of ["ioredis", "node-redis"] as const)
      for (const callers of [1, 64]) await alone(library, callers);
  },
  handoff: async () => {
    say(`\n${HAND_OFFS} callers wait for one name, each holds it for ${HOLD_MS} ms`);
    for (const library of ["ioredis", "node-redis"] as const) {
      const each = Array.from({ length: HAND_OFFS }, () =>
        ours(library, manager(library, { handOff: "off" })),
      );
      // Connected and listening, as processes are that have waited before.
      await Promise.all(each.map(async ({ take }) => (await take(`warm-${library}`))()));
      await handOffs(`ringfence on ${library}`, each);
    }
    for (const peer of peers)
      await handOffs(`${peer.name} on ${peer.library}`, new Array<Lock>(HAND_OFFS).fill(peer));
    say("  target: under 3 ms, at most 4 commands, none inverted");
  },
  crowd: async () => {
    say(`\n${WAITERS} callers of one process at one name, nothing held`);
    for (const lock of [ours("ioredis"), ours("node-redis"), ...peers]) await crowd(lock);
    say("  target: 10 times the best peer, every caller within 20 % of the mean");
  },
  held: async () => {
    for (const library of ["ioredis", "node-redis"] as const) await held(library);
  },
};

const asked = process.argv.slice(2);
for (const [name, part] of Object.entries(parts))
  if (asked.length === 0 || asked.includes(name)) await part();
await Promise.all(managers.map(async (each) => each.close()));
server.stop();
// Some peers keep timers and connections, and have no way to end them.
process.exit();
