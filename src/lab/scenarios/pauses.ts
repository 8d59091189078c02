import type { Play } from "./play.ts";
import { arms, type Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

const TTL = { ttlMs: 2000 };
const RENEWED = { ttlMs: 2000, renews: true };

/** What a holder does that was away for too long: paused, slept, cut off, or simply slow. */
export const PAUSES: readonly Scenario[] = [
  {
    id: "S01",
    name: "pause-past-ttl",
    title: "a holder is paused past its ttl, and writes when it goes on",
    property: "P4",
    arms: arms({ fenceHolds: true }),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      const from = await s.open("A", a);
      void s.must("B", s.section("B", TTL, 500));
      await s.stall("A", 5000);
      await s.write("A", a, from);
      await a.release();
    },
  },
  {
    id: "S02",
    name: "pause-after-check",
    title: "a holder is paused between its check and the write that follows",
    property: "P4",
    arms: arms({ fenceHolds: true }),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      const from = await s.open("A", a);
      void s.must("B", s.section("B", TTL, 500));
      if (!(await a.believes())) return;
      await s.stall("A", 5000);
      await s.write("A", a, from);
    },
  },
  {
    id: "S16",
    name: "resurrecting-extend",
    title: "a renewal makes a lapsed lock again, under the same token",
    property: "P14",
    arms: arms({ naive: { renew: "set", believes: "until told" } }),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", RENEWED);
      const from = await s.open("A", a);
      await s.sleep("A", 800);
      s.pauseFor("A", 4900);
      await s.section("B", TTL);
      await s.sleep("A", 3000);
      if (await a.believes()) await s.write("A", a, from);
    },
  },
  {
    id: "S17",
    name: "watchdog-limit",
    title: "a pause longer than what the last renewal left",
    property: "P6",
    arms: arms({ naive: { renew: "compare-and-expire", believes: "until told" } }),
    withinMs: 20_000,
    real: { clients: ["A"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", RENEWED);
      await s.sleep("A", 1000);
      s.pauseFor("A", 4000);
      await s.sleep("A", 0);
      await a.believes();
      await a.release();
    },
  },
  {
    id: "S18",
    name: "hung-job",
    title: "a job hangs while its lease is renewed for ever",
    property: "P13",
    arms: arms({ naive: { renew: "compare-and-expire" } }),
    check: { maxHoldNs: 6e9 },
    withinMs: 9000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      await s.acquire("A", { ...RENEWED, maxHoldMs: 5000 });
      await s.section("B", TTL);
    },
  },
  {
    id: "S19",
    name: "holder-cut-off",
    title: "the holder is cut off from the lock service",
    property: "P1",
    arms: arms({ naive: { renew: "compare-and-expire", believes: "until told" } }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", RENEWED);
      s.cut("A", s.server);
      await s.section("B", TTL, 1000);
      await a.believes();
    },
  },
  {
    id: "S22",
    name: "ttl-shorter-than-work",
    title: "the work takes longer than the ttl, without any fault",
    property: "P4",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      void s.must("A", s.section("A", TTL, 5000));
      await s.after(10);
      await s.section("B", TTL, 5000);
    },
  },
  {
    id: "S38",
    name: "host-suspended",
    title: "the host sleeps, and its monotonic clock with it",
    property: "P6",
    arms: arms(),
    withinMs: 20_000,
    async play(s: Stage): Promise<void> {
      const a = await s.acquire("A", TTL);
      s.world.suspend("A");
      s.world.scheduler.after(5000, () => {
        s.world.unsuspend("A");
      });
      await s.sleep("A", 0);
      a.believes();
    },
  },
  {
    id: "S57",
    name: "wall-clock-steps",
    title: "the wall clock is set back by ten minutes under a holder",
    property: "P6",
    arms: arms({ naive: { believes: "wall" } }),
    withinMs: 20_000,
    real: { clients: ["A"], file: true, clock: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      s.step("A", -600_000);
      await s.sleep("A", 3000);
      await a.believes();
    },
  },
];
