// The SQLite driver against the statements it issues, and processes that share one name.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLockManager } from "ringfence";
import { sqliteDriver } from "ringfence/sqlite";
import { compare, figure, median, now, quantile, say, shares } from "./harness.ts";
import { rawCycles } from "./sqlite-raw.ts";
import type { Order, Report } from "./sqlite-worker.ts";

const RUN_MS = 20;
const SLICES = 10;
const PAIRS = 15;
const WAITERS = 32;
const PROCESSES = 4;
const SHARED_MS = 4000;
const WAKES = 200;

const folder = mkdtempSync(join(tmpdir(), "ringfence-bench-"));
const path = join(folder, "locks.db");
const locks = createLockManager(sqliteDriver(path));

/** Runs a cycle again and again; how often a second. */
async function rate(cycle: () => unknown): Promise<number> {
  const started = now();
  let cycles = 0;
  for (; now() - started < RUN_MS; cycles += 1) await cycle();
  return (cycles / (now() - started)) * 1000;
}

async function hot(): Promise<number> {
  const started = now();
  const end = started + RUN_MS;
  let cycles = 0;
  const caller = async (): Promise<void> => {
    for (; now() < end; cycles += 1) {
      const lease = await locks.acquire("hot");
      await lease.release();
    }
  };
  await Promise.all(Array.from({ length: WAITERS }, caller));
  return (cycles / (now() - started)) * 1000;
}

class Worker {
  readonly #child: ChildProcess;

  constructor() {
    this.#child = fork(join(import.meta.dirname, "sqlite-worker.ts"), [path]);
  }

  async ask(order: Order): Promise<Report> {
    const reply = once(this.#child, "message");
    this.#child.send(order);
    return (await reply)[0] as Report;
  }

  async end(): Promise<void> {
    const exit = once(this.#child, "exit");
    this.#child.disconnect();
    await exit;
  }
}

await (await locks.acquire("raw")).release();
const raw = await rawCycles(path);
for (const [how, cycle, target] of [
  ["by name", raw.named, "ratio at least 0.8"],
  // What the driver does where the client takes it: what is left is everything else that it does.
  ["as a list", raw.listed, "none of its own: a list is the driver's doing"],
] as const) {
  if (cycle === null) continue;
  await compare(
    {
      title: `SQLite (${raw.client}, WAL, synchronous NORMAL), uncontended: acquire + release, raw values ${how}`,
      ours: "ringfence",
      theirs: "same statements, raw",
      unit: "cycles a second",
      target,
      pairs: PAIRS,
      slices: SLICES,
      warmUps: 40,
    },
    {
      ours: async () => await rate(async () => (await locks.acquire("raw")).release()),
      // One turn of the event loop's microtasks a cycle, which every caller of an asynchronous API has.
      theirs: async () => await rate(cycle),
    },
  );
}
await compare(
  {
    title: `SQLite, hot: ${WAITERS} callers of one process on one name, against raw uncontended statements, values by name`,
    ours: "ringfence",
    theirs: "same statements, raw",
    unit: "cycles a second",
    target: "ratio at least 10",
    pairs: PAIRS,
    slices: SLICES,
    warmUps: 40,
  },
  { ours: hot, theirs: async () => await rate(raw.named) },
);
raw.close();

const workers = Array.from({ length: PROCESSES }, () => new Worker());
await Promise.all(workers.map(async (worker) => await worker.ask({ call: "open" })));
say(
  `\nSQLite, ${PROCESSES} processes on one name, one caller each, ${SHARED_MS / 1000} s, 3 times`,
);
for (let round = 0; round < 3; round += 1) {
  const reports = await Promise.all(
    workers.map(async (worker) => await worker.ask({ call: "cycle", forMs: SHARED_MS })),
  );
  const counts = reports.map(({ cycles }) => cycles);
  const { least, most } = shares(counts);
  const all = counts.reduce((sum, count) => sum + count, 0);
  say(`  grants [${counts.join("  ")}]  ${figure((all / SHARED_MS) * 1000)} a second`);
  say(`  shares of the mean: ${least.toFixed(2)} to ${most.toFixed(2)}`);
}
say("  target: none below 0.5");

// One process holds, another waits in its queue; from before the release to the waiter's lease.
const [holder, waiter] = workers as [Worker, Worker];
const delays: number[] = [];
for (let i = 0; i < WAKES; i += 1) {
  await holder.ask({ call: "acquire" });
  const waiting = waiter.ask({ call: "wait" });
  await new Promise((done) => setTimeout(done, 30));
  const { at: released } = await holder.ask({ call: "release" });
  const { at: acquired } = await waiting;
  delays.push(acquired - released);
}
say(`\nSQLite, wake-up after a release in another process, ${WAKES} times`);
say(`  median ${figure(median(delays), 2)} ms, p95 ${figure(quantile(delays, 0.95), 2)} ms`);
say("  target: median under 5 ms");
await Promise.all(workers.map(async (worker) => worker.end()));
await locks.close();
rmSync(folder, { recursive: true, force: true });
