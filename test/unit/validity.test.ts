import { describe, expect, it } from "vitest";
import { type ClockAlarm, HolderClock, marginMs } from "../../src/core/validity.ts";
import { FakeClock, FakeRandom } from "../../src/testing/index.ts";

function setUp(): { clock: FakeClock; holder: HolderClock; alarms: ClockAlarm[]; start: number } {
  const clock = new FakeClock();
  const alarms: ClockAlarm[] = [];
  const holder = new HolderClock(clock, new FakeRandom(1), (alarm) => alarms.push(alarm));
  return { clock, holder, alarms, start: holder.now() };
}

describe("margin", () => {
  it("is the ratio plus 5 %, which stays between 20 and 250 ms", () => {
    expect(marginMs(50, 0.01)).toBeCloseTo(20.5);
    expect(marginMs(1000, 0.01)).toBeCloseTo(60);
    expect(marginMs(30_000, 0.01)).toBeCloseTo(550);
    expect(marginMs(1000, 0.2)).toBeCloseTo(250);
  });
});

describe("a holder's clock", () => {
  it("counts what the monotonic clock counts", async () => {
    const { clock, holder, alarms, start } = setUp();
    await clock.advance(5000);
    expect(holder.now() - start).toBe(5000);
    expect(alarms).toEqual([]);
  });

  it("counts a suspend, which the monotonic clock does not (S38)", () => {
    const { clock, holder, alarms, start } = setUp();
    clock.suspend(60_000);
    expect(holder.now() - start).toBe(60_000);
    expect(alarms).toEqual(["slept"]);
    clock.suspend(10_000);
    expect(holder.now() - start).toBe(70_000);
    expect(alarms).toEqual(["slept", "slept"]);
  });

  it("takes a forward step of the wall clock for an alarm and nothing else (S57)", () => {
    const { clock, holder, alarms, start } = setUp();
    clock.step(600_000);
    expect(holder.now() - start).toBe(0);
    expect(holder.now() - start).toBe(0);
    expect(alarms).toEqual(["wall-step"]);
  });

  it("ignores a backward step, and still sees a suspend after it", () => {
    const { clock, holder, alarms, start } = setUp();
    clock.step(-600_000);
    expect(holder.now() - start).toBe(0);
    clock.suspend(30_000);
    expect(holder.now() - start).toBe(30_000);
    expect(alarms).toEqual(["slept"]);
  });

  it("sees a sleep that a wall clock set back before it hides, within a second of waking time", async () => {
    const { clock, holder, alarms, start } = setUp();
    await clock.advance(1500);
    clock.step(-600_000);
    clock.suspend(60_000);
    expect(holder.now() - start).toBe(61_500);
    expect(alarms).toEqual(["slept"]);
  });

  it("sees a suspend behind a wall clock that was set back at the same time", () => {
    const { clock, holder, alarms, start } = setUp();
    clock.suspend(30_000);
    clock.step(-600_000);
    expect(holder.now() - start).toBe(30_000);
    expect(alarms).toEqual(["slept"]);
  });

  it("forgets numbers drawn in advance when time jumped: a cloned machine must not repeat them", () => {
    const clock = new FakeClock();
    let forgotten = 0;
    const random = {
      bytes: (n: number) => new Uint8Array(n),
      unit: () => 0.5,
      forget: () => (forgotten += 1),
    };
    const holder = new HolderClock(clock, random, () => undefined);
    holder.now();
    expect(forgotten).toBe(0);
    clock.step(1000);
    holder.now();
    expect(forgotten).toBe(1);
  });
});
