import { describe, expect, it } from "vitest";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { FakeRandom } from "../../src/testing/fake-random.ts";

describe("FakeClock", () => {
  it("stands still until it is moved", async () => {
    const clock = new FakeClock({ monoMs: 5, bootMs: 7, wallMs: 9 });
    let fired = false;
    clock.timer(0, () => {
      fired = true;
    });
    await clock.drain();
    expect([clock.mono(), clock.boot(), clock.wall(), fired]).toEqual([5, 7, 9, false]);
  });

  it("moves all three clocks alike when time passes", async () => {
    const clock = new FakeClock({ monoMs: 5, bootMs: 7, wallMs: 9 });
    await clock.advance(100);
    expect([clock.mono(), clock.boot(), clock.wall()]).toEqual([105, 107, 109]);
  });

  it("steps the wall alone, and suspends boot time and the wall together", () => {
    const clock = new FakeClock({ monoMs: 5, bootMs: 7, wallMs: 9 });
    clock.step(-4);
    clock.suspend(100);
    expect([clock.mono(), clock.boot(), clock.wall()]).toEqual([5, 107, 105]);
  });

  it("fires timers in the order of their time, equal ones in the order of starting", async () => {
    const clock = new FakeClock({ monoMs: 0 });
    const fired: string[] = [];
    const start = (ms: number, label: string): void => {
      clock.timer(ms, () => fired.push(`${label}@${clock.mono()}`));
    };
    start(30, "c");
    start(10, "a");
    start(20, "b1");
    start(20, "b2");
    start(41, "late");
    await clock.advance(40);
    expect(fired).toEqual(["a@10", "b1@20", "b2@20", "c@30"]);
    expect([clock.mono(), clock.pending, clock.nextMs]).toEqual([40, 1, 1]);
  });

  it("lets promises react between two timers, and fires what they started on the way", async () => {
    const clock = new FakeClock({ monoMs: 0 });
    const sleep = async (ms: number): Promise<void> =>
      new Promise((resolve) => clock.timer(ms, resolve));
    const seen: number[] = [];
    const work = (async () => {
      for (let i = 0; i < 5; i += 1) {
        await sleep(10);
        for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
        seen.push(clock.mono());
      }
    })();
    await clock.advance(50);
    await work;
    expect(seen).toEqual([10, 20, 30, 40, 50]);
  });

  it("never fires a cancelled timer, and a second cancel harms no other", async () => {
    const clock = new FakeClock();
    const fired: string[] = [];
    const first = clock.timer(10, () => fired.push("first"), true);
    clock.timer(10, () => fired.push("second"));
    expect([clock.pending, clock.pendingRefs]).toEqual([2, 1]);
    first.cancel();
    first.cancel();
    expect([clock.pending, clock.pendingRefs]).toEqual([1, 0]);
    await clock.advance(10);
    first.cancel();
    expect(fired).toEqual(["second"]);
  });

  it("fires overdue timers after a stall, at the time that it is then", async () => {
    const clock = new FakeClock({ monoMs: 0, wallMs: 0 });
    const fired: number[] = [];
    clock.timer(10, () => fired.push(clock.mono()));
    clock.stall(500);
    await clock.drain();
    expect([fired, clock.mono(), clock.wall(), clock.nextMs]).toEqual([[], 500, 500, 0]);
    await clock.advance(0);
    expect([fired, clock.mono()]).toEqual([[500], 500]);
  });

  it("settles work by going from timer to timer, and stops there", async () => {
    const clock = new FakeClock({ monoMs: 0 });
    const work = new Promise<string>((resolve) => {
      clock.timer(10, () => {
        clock.timer(20, () => {
          resolve("done");
        });
      });
    });
    clock.timer(1000, () => undefined);
    expect(await clock.settle(work)).toBe("done");
    expect(clock.mono()).toBe(30);
  });

  it("settle passes a rejection on, and refuses to wait for what nothing can settle", async () => {
    const clock = new FakeClock();
    await expect(clock.settle(Promise.reject(new Error("boom")))).rejects.toThrow("boom");
    const never = new Promise(() => undefined);
    await expect(clock.settle(never)).rejects.toThrow("no timer is left");
    clock.timer(5000, () => undefined);
    await expect(clock.settle(never, 100)).rejects.toThrow("after 100 ms");
  });

  it("refuses to go back, and to be moved by two hands", async () => {
    const clock = new FakeClock();
    await expect(clock.advance(-1)).rejects.toThrow(RangeError);
    await expect(clock.advance(Number.NaN)).rejects.toThrow(RangeError);
    const first = clock.advance(10);
    await expect(clock.advance(10)).rejects.toThrow("already advancing");
    await first;
    await clock.advance(1);
  });

  it("rejects with what a timer threw, and can be moved on", async () => {
    const clock = new FakeClock();
    clock.timer(10, () => {
      throw new Error("in a timer");
    });
    await expect(clock.advance(20)).rejects.toThrow("in a timer");
    const before = clock.mono();
    await clock.advance(10);
    expect(clock.mono()).toBe(before + 10);
  });
});

describe("FakeRandom", () => {
  it("repeats itself for one seed and differs for another", () => {
    const draw = (seed: number): string => new FakeRandom(seed).bytes(20).join();
    expect(draw(7)).toBe(draw(7));
    expect(draw(7)).not.toBe(draw(8));
  });

  it("spreads over [0, 1)", () => {
    const random = new FakeRandom();
    const buckets = new Array<number>(10).fill(0);
    for (let i = 0; i < 10_000; i += 1) {
      const unit = random.unit();
      const bucket = Math.floor(unit * 10);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    expect(buckets).toHaveLength(10);
    for (const count of buckets) expect(count).toBeGreaterThan(800);
  });
});
