import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { canMoveWallClocks, compileShim, WallClock } from "../../src/lab/chaos/wall-clock.ts";
import { WallClockProcess } from "../fixtures/wall-clock.ts";
import type { WallClockSetup } from "../fixtures/wall-clock-worker.ts";
import { bundle } from "../support/bundle.ts";

const TEN_MINUTES = 600_000;
/** A lease is due to be renewed every 3 s; a renewal that comes much sooner has another cause. */
const TTL_MS = 9000;
const EARLY_MS = (TTL_MS / 3) * 0.9;

let worker: Awaited<ReturnType<typeof bundle>>;
let folder: string;
let clock: WallClock;
const running: WallClockProcess[] = [];

function start(setup: Partial<WallClockSetup>): WallClockProcess {
  const all = { path: null, roles: [], ttlMs: TTL_MS, waitMs: 60_000, ...setup };
  const child = new WallClockProcess(worker.file, all, clock);
  running.push(child);
  return child;
}

describe.runIf(canMoveWallClocks())("a step of the wall clock under running processes", () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "ringfence-wall-clock-"));
    clock = new WallClock(compileShim(folder), join(folder, "wall-clock.offset"));
    worker = await bundle("test/fixtures/wall-clock-worker.ts");
  }, 60_000);
  afterEach(async () => {
    for (const child of running.splice(0)) {
      child.kill();
      await child.ended;
    }
    clock.set(0);
  });
  afterAll(() => {
    worker.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(["memory", "sqlite"])(
    "%s: ten minutes forward cost one early renewal, ten minutes back nothing (S57)",
    async (store) => {
      const path = store === "memory" ? null : join(folder, "step.db");
      const holder = start({ path, roles: ["hold"] });
      const { mono: held, wall } = await holder.first("held");

      clock.set(TEN_MINUTES);
      const renewed = await holder.first("renewed");
      // Really moved, and seen long before a renewal was due.
      expect(renewed.wall - wall).toBeGreaterThan(TEN_MINUTES - 1000);
      expect(renewed.mono - held).toBeLessThan(TTL_MS / 3);
      const early = (): number[] => {
        const times = [held, ...holder.said("renewed").map(({ mono }) => mono)];
        return times.slice(1).filter((mono, i) => mono - (times[i] ?? 0) < EARLY_MS);
      };
      const others = (): number[] =>
        (["jeopardy", "safe", "lost"] as const).map((kind) => holder.said(kind).length);
      await sleep(300);
      expect(early()).toEqual([renewed.mono]);
      expect(others()).toEqual([1, 1, 0]);

      clock.set(-TEN_MINUTES);
      await sleep(1000);
      expect(early()).toEqual([renewed.mono]);
      expect(others()).toEqual([1, 1, 0]);
      holder.finish();
      expect((await holder.first("released")).detail).toBe("released");
    },
  );

  it.each([TEN_MINUTES, -TEN_MINUTES])(
    "a waiting budget of 1.5 s stays one when the clock steps by %d ms (S57)",
    async (step) => {
      const both = start({ roles: ["hold", "wait"], waitMs: 1500 });
      await both.first("held");
      clock.set(step);
      const { detail } = await both.first("timeout");
      expect(detail).toBeGreaterThanOrEqual(1500);
      expect(detail).toBeLessThan(10_000);
      expect(both.said("lost")).toEqual([]);
    },
  );

  it("SQLite: a waiter in another process neither gets the lease early nor misses its release (S57)", async () => {
    const path = join(folder, "two.db");
    const holder = start({ path, roles: ["hold"] });
    await holder.first("held");
    const waiter = start({ path, roles: ["wait"] });
    await sleep(400);
    clock.set(TEN_MINUTES);
    await sleep(400);
    clock.set(-TEN_MINUTES);
    await sleep(400);
    expect([...waiter.said("got"), ...waiter.said("timeout"), ...holder.said("lost")]).toEqual([]);
    holder.finish();
    const { mono: released } = await holder.first("released");
    const { mono: got } = await waiter.first("got");
    expect(got - released).toBeLessThan(5000);
  });
});
