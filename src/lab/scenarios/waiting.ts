import type { Play } from "./play.ts";
import { arms, type Scenario } from "./scenario.ts";

const TTL = { ttlMs: 2000 };
const RENEWED = { ttlMs: 2000, renews: true };

const MANY = Array.from({ length: 200 }, (_, i) => `W${i + 1}`);
const FIFTY = MANY.slice(0, 50);

/** The same in so many processes. */
function crowds(names: readonly string[], processes: number): readonly (readonly string[])[] {
  const size = names.length / processes;
  return Array.from({ length: processes }, (_, i) => names.slice(i * size, (i + 1) * size));
}

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
    real: { clients: ["A", ...crowds(MANY, 4)], wakes: true },
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
    // Fifty who ask more often keep a real machine busy with nothing else.
    arms: arms({ naive: { everyMs: 200 } }),
    withinMs: 60_000,
    real: { clients: ["A", ...crowds(FIFTY, 2)], file: true },
    async play(s: Play): Promise<void> {
      // Nobody is served before all of them are there, so that it is known who came first.
      const terms = { ttlMs: 60_000 };
      const a = await s.acquire("A", terms);
      const turns: Promise<void>[] = [];
      for (const [i, name] of FIFTY.entries()) {
        const turn = s.section(name, terms);
        // Whose turn fails is told when all have had theirs.
        turn.catch(() => undefined);
        turns.push(turn);
        await s.lined(i + 1);
      }
      await a.release();
      await Promise.all(turns);
    },
  },
  {
    id: "S56",
    name: "holder-and-head-die",
    title: "the holder and the first of the line die together; the next one is never told",
    property: "P8",
    arms: arms({ naive: { waits: "line" } }),
    withinMs: 10_000,
    real: { clients: ["A", "B", "C"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", RENEWED);
      // It dies in line, and is told nothing any more.
      s.section("B", TTL).catch(() => undefined);
      await s.lined(1);
      void s.must("C", s.section("C", TTL));
      await s.lined(2);
      s.kill("B");
      // The release tells the dead one, and its successor waits for a word that never comes.
      if (s.ours) s.kill("A");
      else await a.release();
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
