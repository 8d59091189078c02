import type { Held } from "../clients/client.ts";
import { arms, type Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

const TTL = { ttlMs: 2000 };
const RENEWED = { ttlMs: 2000, renews: true };

/** How those who wait, or need more than one thing, come to their turn. */
export const WAITING: readonly Scenario[] = [
  {
    id: "S25",
    name: "lost-wake-up",
    title: "the message that the lock is free is lost",
    property: "P8",
    arms: arms({ naive: { waits: "subscribe" } }),
    withinMs: 20_000,
    async play(s: Stage): Promise<void> {
      const a = await s.acquire("A", TTL);
      s.client("B");
      s.drop(s.server, "B", ({ label }) => label === "wake", 1000);
      void s.must("B", s.section("B", TTL));
      await s.sleep("A", 500);
      await a.release();
    },
  },
  {
    id: "S36",
    name: "two-locks",
    title: "two clients take two locks in opposite orders",
    property: "P8",
    arms: arms({ naive: { renew: "compare-and-expire" } }),
    withinMs: 20_000,
    async play(s: Stage): Promise<void> {
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
      naive: { lock: { kind: "core" }, guard: "claim", holds: false },
      fence: { lock: { kind: "core" }, guard: "fence", holds: false },
      ringfence: { lock: { kind: "core" }, guard: "claim", holds: true },
    },
    withinMs: 20_000,
    async play(s: Stage): Promise<void> {
      const whole = s.armName === "ringfence";
      const a = await s.acquire("A", TTL);
      const asA = s.as("A", a);
      for (const res of ["R0", "R1"]) await s.resource.claim(asA, res);
      const fromR1 = await s.resource.read(asA, "R1");
      s.pauseFor("A", 3000);
      const b = await s.acquire("B", { ttlMs: 5000 });
      const asB = s.as("B", b);
      for (const res of whole ? ["R0", "R1"] : ["R0"]) await s.resource.claim(asB, res);
      const half = await s.resource.write(asB, "R0", await s.resource.read(asB, "R0"));
      await s.sleep("A", 0);
      // What B has only half done, A carries over to the other resource.
      await s.resource.read(asA, "R0");
      await s.resource.write(asA, "R1", fromR1);
      await s.resource.write(asB, "R0", half ?? 0);
      await b.release();
    },
  },
];

async function both(s: Stage, name: string, locks: readonly string[]): Promise<void> {
  const core = s.core(name);
  if (core !== null) {
    const set = await core.manager.acquireAll(locks, { ttl: 2000 });
    await s.sleep(name, 10);
    await set.release();
    return;
  }
  const held: Held[] = [];
  for (const lock of locks) {
    held.push(await s.acquire(name, RENEWED, lock));
    await s.sleep(name, 10);
  }
  for (const each of held) await each.release();
}
