/** Field cases that need real processes or a real store; docs/field-cases.md has the whole list. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadClient } from "../../src/drivers/sqlite/client.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { createLockManager } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import type { FieldCaseSetup } from "../fixtures/field-case-worker.ts";
import { intercepted } from "../fixtures/intercepted.ts";
import { size } from "../fixtures/soak.ts";
import { rejection } from "../fixtures/world.ts";
import { bundle } from "../support/bundle.ts";

let worker: Awaited<ReturnType<typeof bundle>>;
let folder: string;
const running = new Set<ChildProcess>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "ringfence-field-"));
  worker = await bundle("test/fixtures/field-case-worker.ts");
}, 60_000);
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
  worker.remove();
  rmSync(folder, { recursive: true, force: true });
});

interface Program {
  readonly child: ChildProcess;
  readonly next: () => Promise<Record<string, unknown>>;
  readonly ended: Promise<{ readonly code: number | null; readonly stderr: string }>;
}

function start(setup: FieldCaseSetup): Program {
  const child = spawn(process.execPath, [worker.file, JSON.stringify(setup)], { stdio: "pipe" });
  running.add(child);
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = once(child, "close").then(([code]) => {
    running.delete(child);
    return { code: code as number | null, stderr };
  });
  return {
    child,
    next: async () => {
      const line = await lines.next();
      if (line.done === true) throw new Error(`ended without a line: ${stderr}`);
      return JSON.parse(line.value) as Record<string, unknown>;
    },
    ended,
  };
}

it("a loop that blocks past the ttl loses the lease once, in the same tick, and crashes nothing (B01, B67, B104)", async () => {
  const stalled = start({ program: "stall", path: join(folder, "stall.db"), ttlMs: 400 });
  const { listeners, rejectedMs, ...seen } = await stalled.next();
  expect(seen).toEqual({
    abortedAtOnce: true,
    code: "ERR_LEASE_LOST",
    reason: "expired",
    outcome: { value: 42 },
  });
  // Without tries to give back what is gone; the machine may be busy.
  expect(rejectedMs).toBeLessThan(3000);
  expect(await stalled.ended).toEqual({ code: 0, stderr: "" });
  // The library takes no signal for itself (B89).
  expect(listeners).toEqual([0, 0, 0]);
});

it("a process that was frozen past its ttl finds its lease lost, and its old timers spare the next one (B68, B97)", async () => {
  const frozen = start({ program: "freeze", path: join(folder, "freeze.db"), ttlMs: 500 });
  const { held } = await frozen.next();
  frozen.child.kill("SIGSTOP");
  await sleep(1500);
  frozen.child.kill("SIGCONT");
  frozen.child.stdin?.write("go on\n");
  const { state, next, nextState } = await frozen.next();
  expect([state, nextState]).toEqual(["lost", "held"]);
  expect(BigInt(String(next))).toBeGreaterThan(BigInt(String(held)));
  expect(await frozen.ended).toEqual({ code: 0, stderr: "" });
});

it("holders that are killed anywhere leave a lock that is free within a ttl and a second (B10, B76)", async () => {
  const path = join(folder, "killed.db");
  const ttlMs = 400;
  const others = createLockManager(sqliteDriver(path), { ttl: ttlMs });
  for (let left = size(3, 200); left > 0; left -= 3) {
    const loops = Array.from({ length: 3 }, () => start({ program: "loop", path, ttlMs }));
    await Promise.all(loops.map(async ({ next }) => await next()));
    for (const { child, ended } of loops) {
      await sleep(Math.random() * 20);
      child.kill("SIGKILL");
      await ended;
    }
    const since = performance.now();
    await (await others.acquire("x", { wait: "1m" })).release();
    // The rest is for a machine that does other things as well.
    expect(performance.now() - since).toBeLessThan(ttlMs + 1000 + 2000);
  }
  await others.close();
});

it("a lease that was handed over is its new holder's alone: the old one renews and frees nothing (B11)", async () => {
  const clock = new FakeClock();
  const path = join(folder, "handed.db");
  let renewals = 0;
  const counted = intercepted(sqliteDriver(path), async (step, run) => {
    if (step === "renew") renewals += 1;
    return await run();
  });
  const origin = createLockManager(counted, { clock, ttl: 3000 });
  const target = createLockManager(sqliteDriver(path), { clock, ttl: 3000 });
  const lease = await origin.acquire("x");
  const exported = await lease.export();
  const before = renewals;
  const resumed = await target.resume(exported);
  expect(resumed.token).toBeGreaterThan(lease.token);
  await clock.advance(10_000);
  expect([renewals, resumed.state]).toEqual([before, "held"]);
  expect(await lease.release()).toBe("already-lost");
  expect((await target.inspect("x")).token).toBe(resumed.token);
  expect(await rejection(target.resume(exported))).toMatchObject({ reason: "taken" });
  expect(await resumed.release()).toBe("released");
  await Promise.all([origin.close(), target.close()]);
});

it("tries and waits that come to nothing leave no row behind (B34, B37)", async () => {
  const clock = new FakeClock();
  const path = join(folder, "tries.db");
  const holder = createLockManager(sqliteDriver(path), { clock, ttl: "1h", keepalive: "off" });
  const others = createLockManager(sqliteDriver(path), { clock });
  await holder.acquire("x");
  const db = (await loadClient()).open(path);
  const rows = (): number[] =>
    ["locks", "shares", "waiters", "tombs"].map((table) => {
      const row = db.prepare(`SELECT count(*) AS n FROM ringfence_${table}`).get({});
      return (row as { n: number }).n;
    });
  const before = rows();
  for (let i = 0; i < 200; i += 1) expect(await others.tryAcquire("x")).toBeNull();
  for (let i = 0; i < 50; i += 1) await clock.settle(rejection(others.acquire("x", { wait: 50 })));
  expect(rows()).toEqual(before);
  db.close();
  await Promise.all([holder.close(), others.close()]);
});
