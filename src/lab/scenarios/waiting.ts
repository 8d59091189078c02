import type { Play } from "./play.ts";
import { arms, type Scenario } from "./scenario.ts";

const TTL = { ttlMs: 2000 };
const RENEWED = { ttlMs: 2000, renews: true };

const MANY = Array.from({ length: 200 }, (_, i) => `W${i + 1}`);
/** The same in four processes. */
const CROWDS = [0, 50, 100, 150].map((from) => MANY.slice(from, from + 50));

/** How those who wait, or need more than one thing, come to their turn. */
export const WAITING: readonly Scenario[] = [
  {
    id: "S25",
    name: "lost-wake-up",
    title: "the message that the lock is free is lost",
    property: "P8",
    arms: arms({ naive: { waits: "subscribe" } }),
    withinMs: 5000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      s.client("B");
      s.drop(s.server, "B", ({ label }) => label === "wake", 1000);
      void s.must("B", s.section("B", TTL));
      await s.sleep("A", 500);
      await a.release();
    },
  },
  {
    id: "S24",
    name: "herd",
    title: "two hundred wait, and every release wakes them all",
    property: "P9",
    arms: arms({ naive: { waits: "subscribe" } }),
    withinMs: 20_000,
    real: { clients: ["A", ...CROWDS] },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", { ttlMs: 10_000 });
      for (const name of MANY) void s.client(name).acquire("L", { ttlMs: 10_000 });
      await s.after(1000);
      await a.release();
      await s.after(1000);
    },
  },
  {
    id: "S39",
    name: "unfair",
    title: "fifty contend for a lock by asking again and again: who came first is not who is next",
    property: "P9",
    arms: arms(),
    withinMs: 60_000,
    async play(s: Play): Promise<void> {
      const names = MANY.slice(0, 50);
      await Promise.all(
        names.map(async (name, i) => {
          await s.after(1 + i);
          await s.section(name, { ttlMs: 10_000 }, 30);
        }),
      );
    },
  },
  {
    id: "S56",
    name: "holder-and-head-die",
    title: "the holder and the first of the line die together; the next one is never told",
    property: "P8",
    arms: arms({ naive: { waits: "line" } }),
    withinMs: 9000,
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", RENEWED);
      for (const name of ["B", "C"]) {
        void (name === "C" ? s.must(name, s.section(name, TTL)) : s.section(name, TTL));
        await s.after(50);
      }
      s.kill("B");
      // The release tells the dead one, and its successor waits for a word that never comes.
      if (s.ours) s.kill("A");
      else await a.release();
      await s.after(8000);
    },
  },
  {
    id: "S36",
    name: "two-locks",
    title: "two clients take two locks in opposite orders",
    property: "P8",
    arms: arms({ naive: { renew: "compare-and-expire" } }),
    withinMs: 5000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      void s.must("B", both(s, "B", ["L2", "L1"]));
      await both(s, "A", ["L1", "L2"]);
    },
  },
  {
    id: "S43",
    name: "two-resources",
    title: "two resources under one lock, each claimed by whom it uses",
    property: "P4",
    arms: {
      naive: { lock: { kind: "core", redis: {} }, guard: "claim", holds: false },
      fence: { lock: { kind: "core", redis: {} }, guard: "fence", holds: false },
      ringfence: { lock: { kind: "core", redis: {} }, guard: "claim", holds: true },
    },
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const whole = s.armName === "ringfence";
      const a = await s.acquire("A", TTL);
      for (const res of ["R0", "R1"]) await s.claim("A", a, res);
      const fromR1 = await s.read("A", a, "R1");
      s.pauseFor("A", 3000);
      const b = await s.acquire("B", { ttlMs: 5000 });
      for (const res of whole ? ["R0", "R1"] : ["R0"]) await s.claim("B", b, res);
      const half = await s.write("B", b, await s.read("B", b, "R0"), "R0");
      await s.sleep("A", 0);
      // What B has only half done, A carries over to the other resource.
      await s.read("A", a, "R0");
      await s.write("A", a, fromR1, "R1");
      await s.write("B", b, half ?? 0, "R0");
      await b.release();
    },
  },
];

async function both(s: Play, name: string, locks: readonly string[]): Promise<void> {
  const release = await s.acquireAll(name, locks, RENEWED);
  await s.sleep(name, 10);
  await release();
}
