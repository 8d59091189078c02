import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { command } from "../fixtures/command.ts";
import type { Growth, GrowthSetup } from "../fixtures/growth-worker.ts";
import { size } from "../fixtures/soak.ts";
import { bundle } from "../support/bundle.ts";

const CYCLES = size(4000, 100_000);
/** What the engine's own bookkeeping may add, whatever the number of cycles: 125 bytes a cycle in the small run. */
const HEAP_BYTES = 500_000;
/** The names released last stay at hand for a while: four sweeps of 256 releases, and what came since the last one. */
const IDLE_ROWS = 1600;

let worker: Awaited<ReturnType<typeof bundle>>;
let folder: string;
let files = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "ringfence-growth-"));
  worker = await bundle("test/fixtures/growth-worker.ts");
}, 60_000);
afterAll(() => {
  worker.remove();
  rmSync(folder, { recursive: true, force: true });
});

async function grow(
  driver: "memory" | "sqlite",
  cycles: number,
  names: number | null,
): Promise<Growth> {
  files += 1;
  const path = driver === "memory" ? null : join(folder, `${files}.db`);
  const setup: GrowthSetup = { path, cycles, names };
  const args = ["--expose-gc", worker.file, JSON.stringify(setup)];
  const { code, stdout, stderr } = await command(process.execPath, args);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as Growth;
}

describe.each(["memory", "sqlite"] as const)("%s", (driver) => {
  it(`${CYCLES} cycles of acquire and release leave nothing behind (B22)`, async () => {
    const { before, after, warnings } = await grow(driver, CYCLES, 7);
    expect(after.heapBytes - before.heapBytes).toBeLessThan(HEAP_BYTES);
    expect(after.timers).toBeLessThanOrEqual(before.timers);
    expect([before.listeners, after.listeners]).toEqual([0, 0]);
    expect(after.descriptors).toBe(before.descriptors);
    expect(after.rows).toBeLessThanOrEqual(before.rows);
    expect(after.fileBytes).toBeLessThanOrEqual(before.fileBytes);
    expect(warnings).toEqual([]);
  });

  it(`${CYCLES} different names are forgotten, but for those released last (B22)`, async () => {
    const { before, after, warnings } = await grow(driver, CYCLES, null);
    expect(after.heapBytes - before.heapBytes).toBeLessThan(HEAP_BYTES);
    expect(after.timers).toBeLessThanOrEqual(before.timers);
    expect(after.rows).toBeLessThan(IDLE_ROWS);
    expect(after.descriptors).toBe(before.descriptors);
    // Pages are used again; the log is emptied into the file and begun anew.
    expect(after.fileBytes).toBeLessThan(before.fileBytes + 1_000_000);
    expect(warnings).toEqual([]);
  });
});
