// The memory driver against async-mutex, which has no lease, no token and no deadline; and 100,000 leases held at once.
import { Mutex } from "async-mutex";
import { createLockManager } from "ringfence";
import { memoryDriver } from "ringfence/memory";
import { compare, figure, now, say, shares } from "./harness.ts";

// Short runs and many of them: a busy machine gives and takes the processor in slices of some milliseconds.
const RUN_MS = 20;
const SLICES = 10;
const PAIRS = 25;
const WAITERS = 32;
const LEASES = 100_000;
const WATCH_MS = 25_000;

type Take = () => Promise<() => unknown>;

/** How often a second one caller can take and give back. */
async function alone(take: Take): Promise<number> {
  const started = now();
  let cycles = 0;
  for (; now() - started < RUN_MS; cycles += 100)
    for (let i = 0; i < 100; i += 1) {
      const release = await take();
      await release();
    }
  return (cycles / (now() - started)) * 1000;
}

/** How often a second 32 callers together can, each with its own count. */
async function crowded(take: Take, seen: (counts: number[]) => void): Promise<number> {
  const counts = new Array<number>(WAITERS).fill(0);
  const started = now();
  const end = started + RUN_MS;
  const caller = async (_: number, me: number): Promise<void> => {
    while (now() < end) {
      const release = await take();
      counts[me] = (counts[me] ?? 0) + 1;
      await release();
    }
  };
  await Promise.all(counts.map(caller));
  seen(counts);
  return (counts.reduce((sum, count) => sum + count, 0) / (now() - started)) * 1000;
}

const locks = createLockManager(memoryDriver());
const mutex = new Mutex();
const ours: Take = async () => {
  const lease = await locks.acquire("stock/42");
  return async () => lease.release();
};
const theirs: Take = async () => await mutex.acquire();

await compare(
  {
    title: "memory, uncontended: acquire + release",
    ours: "ringfence",
    theirs: "async-mutex",
    unit: "cycles a second",
    target: "ratio at least 0.5",
    pairs: PAIRS,
    slices: SLICES,
    warmUps: 10,
  },
  { ours: async () => await alone(ours), theirs: async () => await alone(theirs) },
);

const worst = { least: 1, most: 1 };
await compare(
  {
    title: `memory, hot: ${WAITERS} callers of one process on one name`,
    ours: "ringfence",
    theirs: "async-mutex",
    unit: "cycles a second",
    target: "ratio at least 0.5",
    pairs: PAIRS,
    slices: SLICES,
    warmUps: 10,
  },
  {
    ours: async () =>
      await crowded(ours, (counts) => {
        const { least, most } = shares(counts);
        worst.least = Math.min(worst.least, least);
        worst.most = Math.max(worst.most, most);
      }),
    theirs: async () => await crowded(theirs, () => undefined),
  },
);
say(
  `  each caller's share of the mean, in the worst of all runs: ${worst.least.toFixed(3)} to ${worst.most.toFixed(3)}`,
);
say("  target: 0.8 to 1.2");

// The heap a lease takes, its signal unread; then what it costs to keep all of them alive.
const collect = globalThis.gc;
if (collect === undefined) say("\nno heap figures: run with node --expose-gc");
else {
  const heap = (): number => {
    for (let i = 0; i < 4; i += 1) collect();
    return process.memoryUsage().heapUsed;
  };
  const names = Array.from({ length: LEASES }, (_, i) => `held/${i}`);
  const before = heap();
  const held = await Promise.all(names.map(async (name) => await locks.acquire(name)));
  const each = (heap() - before) / held.length;
  say(`\nmemory, ${figure(LEASES)} leases held, ttl 30 s, signals unread`);
  say(`  heap a lease: ${figure(each)} bytes (store and manager; names not counted)`);
  say("  target: under 1,024 bytes");
  const cpu = process.cpuUsage();
  const started = now();
  await new Promise((done) => setTimeout(done, WATCH_MS));
  const { user, system } = process.cpuUsage(cpu);
  const wallMs = now() - started;
  const share = (user + system) / 1000 / wallMs;
  say(`  keepalive: ${figure(share * 100, 2)} % of one core over ${figure(wallMs / 1000, 1)} s`);
  // Counted afterwards: an event a renewal, which nobody asks for, costs as much as the renewal.
  let renewals = 0;
  locks.on("renewed", () => (renewals += 1));
  await new Promise((done) => setTimeout(done, WATCH_MS));
  say(
    `  (${figure(renewals)} renewals in as long again; lost: ${held.filter((l) => l.state !== "held").length})`,
  );
  say("  target: under 5 %");
}
await locks.close();
