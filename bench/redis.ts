/**
 * An uncontended acquire and release through a lock manager against the bare minimum on the same client library:
 * `SET NX PX`, and a script that deletes what is still ours. In pairs, one after the other, at 1 and 64 at a time; what
 * counts is the ratio of the medians. Run: `npx tsx bench/redis.ts`.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { redisDriver } from "../src/drivers/redis/index.ts";
import { createLockManager } from "../src/index.ts";

const PAIRS = 11;
const SLICE_MS = 400;
const DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

type Cycle = (name: string) => Promise<void>;

/** Cycles a second of `cycle`, with so many of them at a time, each on names of its own. */
async function rate(cycle: Cycle, concurrency: number): Promise<number> {
  const begun = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: concurrency }, async (_, worker) => {
      while (performance.now() - begun < SLICE_MS) {
        await cycle(`bench-${worker}`);
        done += 1;
      }
    }),
  );
  return (done * 1000) / (performance.now() - begun);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

async function compare(label: string, ours: Cycle, raw: Cycle): Promise<void> {
  for (const concurrency of [1, 64]) {
    await rate(raw, concurrency);
    await rate(ours, concurrency);
    const [mine, bare]: [number[], number[]] = [[], []];
    for (let pair = 0; pair < PAIRS; pair += 1) {
      // Whoever goes first changes, so that a slow phase of the machine hits both.
      if (pair % 2 === 0) bare.push(await rate(raw, concurrency));
      mine.push(await rate(ours, concurrency));
      if (pair % 2 === 1) bare.push(await rate(raw, concurrency));
    }
    const ratio = median(mine) / median(bare);
    console.log(
      `${label}, ${concurrency} at a time: ringfence ${median(mine).toFixed(0)}/s, SET NX PX ${median(bare).toFixed(0)}/s, ratio ${ratio.toFixed(2)} (medians of ${PAIRS} pairs)`,
    );
    console.log(`  ringfence ${mine.map((value) => value.toFixed(0)).join(" ")}`);
    console.log(`  raw       ${bare.map((value) => value.toFixed(0)).join(" ")}`);
  }
}

async function freePort(): Promise<number> {
  const listener = net.createServer();
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as net.AddressInfo;
  await new Promise<void>((resolve) =>
    listener.close(() => {
      resolve();
    }),
  );
  return port;
}

const port = await freePort();
const folder = mkdtempSync(path.join(os.tmpdir(), "ringfence-bench-"));
const server = spawn(
  "redis-server",
  [
    "--port",
    String(port),
    "--bind",
    "127.0.0.1",
    "--dir",
    folder,
    "--save",
    "",
    "--appendonly",
    "no",
  ],
  { stdio: "ignore" },
);
const host = "127.0.0.1";
const one = new Redis({ host, port, retryStrategy: () => 20 });
one.on("error", () => undefined);
await one.ping();
const two = createClient({ socket: { host, port } });
await two.connect();

let serial = 0;
const oneLocks = createLockManager(redisDriver(one));
await compare(
  "ioredis",
  async (name) => {
    await (await oneLocks.acquire(name)).release();
  },
  async (name) => {
    serial += 1;
    const value = `holder-${serial}`;
    await one.set(name, value, "PX", 30_000, "NX");
    await one.eval(DELETE, 1, name, value);
  },
);
const twoLocks = createLockManager(redisDriver(two));
await compare(
  "node-redis",
  async (name) => {
    await (await twoLocks.acquire(name)).release();
  },
  async (name) => {
    serial += 1;
    const value = `holder-${serial}`;
    await two.sendCommand(["SET", name, value, "NX", "PX", "30000"]);
    await two.eval(DELETE, { keys: [name], arguments: [value] });
  },
);
await oneLocks.close();
await twoLocks.close();
one.disconnect();
two.destroy();
server.kill();
rmSync(folder, { recursive: true, force: true });
