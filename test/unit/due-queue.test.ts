import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Due, DueQueue } from "../../src/core/due-queue.ts";
import { FakeClock } from "../../src/testing/index.ts";

describe("a due queue", () => {
  it("hands out each item once, at or after its time, and none that was taken out or moved", async () => {
    const actions = fc.array(
      fc.record({
        item: fc.integer({ min: 0, max: 5 }),
        at: fc.oneof(fc.integer({ min: 0, max: 400 }), fc.constant(-1)),
        wait: fc.integer({ min: 0, max: 60 }),
      }),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(actions, async (list) => {
        const clock = new FakeClock();
        const start = clock.mono();
        const items = Array.from({ length: 6 }, (): Due => ({ dueAt: -1 }));
        const expected = new Map<Due, number>();
        const queue = new DueQueue<Due>(
          clock,
          () => clock.mono(),
          (due) => {
            for (const item of due) {
              expect(expected.get(item)).toBe(clock.mono());
              expected.delete(item);
            }
          },
        );
        for (const { item, at, wait } of list) {
          const due = items[item];
          if (due === undefined) continue;
          if (at < 0) {
            queue.delete(due);
            expected.delete(due);
          } else {
            const when = Math.max(clock.mono() + 1, start + at);
            queue.set(due, when);
            expected.set(due, when);
          }
          await clock.advance(wait);
        }
        await clock.advance(1000);
        expect(expected.size).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  it("may come early by the slack, never later", async () => {
    const clock = new FakeClock();
    const seen: number[] = [];
    const queue = new DueQueue<Due>(
      clock,
      () => clock.mono(),
      () => seen.push(clock.mono()),
    );
    const at = clock.mono() + 10_000;
    queue.set({ dueAt: -1 }, at, 300);
    await clock.advance(10_000);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toBeLessThanOrEqual(at);
    expect(seen[0]).toBeGreaterThan(at - 300);
  });

  it("keeps a bounded number of ticks while items come and go", () => {
    const clock = new FakeClock();
    const queue = new DueQueue<Due>(
      clock,
      () => clock.mono(),
      () => undefined,
    );
    const item: Due = { dueAt: -1 };
    for (let i = 0; i < 10_000; i += 1) {
      queue.set(item, clock.mono() + 10_000 + (i % 7));
      queue.delete(item);
    }
    expect(queue.ticks).toBeLessThan(200);
  });

  it("holds the process only while something is queued, where it holds it at all", () => {
    const clock = new FakeClock();
    const item: Due = { dueAt: -1 };
    const queue = new DueQueue<Due>(
      clock,
      () => clock.mono(),
      () => undefined,
      { ref: true },
    );
    queue.set(item, clock.mono() + 1000);
    expect(clock.pendingRefs).toBe(1);
    queue.delete(item);
    expect(clock.pendingRefs).toBe(0);
  });
});
