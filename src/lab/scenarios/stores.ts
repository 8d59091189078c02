import type { Play } from "./play.ts";
import { type Arm, arms, type Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

const COPIES: Arm["lock"] = {
  kind: "redis",
  replicas: 1,
  habits: { replicas: 1, renew: "compare-and-expire" },
};

/** What the stores themselves do to a lock: what they copy, what they drop, how votes split. */
export const STORES: readonly Scenario[] = [
  {
    id: "S10",
    name: "renewal-not-copied",
    title:
      "the acquire waited for the replica, its renewals do not: the promoted one ends the lease early",
    property: "P6",
    arms: {
      naive: { lock: COPIES, guard: "none", holds: false },
      fence: {
        lock: { ...COPIES, habits: { ...COPIES.habits, token: true } },
        guard: "fence",
        holds: false,
      },
      ringfence: {
        lock: { kind: "core", redis: { replicas: 1, driver: { replicas: 1 } } },
        guard: "claim",
        holds: true,
      },
    },
    withinMs: 20_000,
    real: { clients: ["A", "B"], query: "replicas=1" },
    async play(s: Play): Promise<void> {
      const [primary = "", replica = ""] = s.servers;
      const a = await s.acquire("A", { ttlMs: 3000, renews: true });
      s.cut(primary, replica, true);
      // Twice renewed by now, for all that it knows; the copy ends with its first ttl.
      await s.sleep("A", 2800);
      await s.failOver();
      await s.after(250);
      await s.client("B").acquire("L", { ttlMs: 3000, waitMs: 0 });
      await a.believes();
      await s.after(500);
    },
  },
  {
    id: "S14",
    name: "redlock-split-vote",
    title: "three clients take two, two and one of five servers, and try again in step",
    property: "P8",
    arms: {
      naive: splitVoters("none"),
      fence: splitVoters("fence"),
      ringfence: { lock: { kind: "quorum", quorum: 3 }, guard: "claim", holds: true },
    },
    withinMs: 30_000,
    async play(s: Stage): Promise<void> {
      const near: Readonly<Record<string, readonly number[]>> = { A: [0, 1], B: [2, 3], C: [4] };
      for (const [name, own] of Object.entries(near))
        s.servers.forEach((server, i) => {
          s.world.net.link(name, server).extraMs = own.includes(i) ? 0 : 5;
        });
      await Promise.all(
        Object.keys(near).map(async (name) => s.must(name, s.section(name, { ttlMs: 2000 }, 10))),
      );
    },
  },
  {
    id: "S37",
    name: "evicted",
    title: "the server runs out of memory and drops the lock",
    property: "P1",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", { ttlMs: 30_000 });
      await s.fillMemory();
      const b = await s.client("B").acquire("L", { ttlMs: 30_000, waitMs: 300 });
      await a.believes();
      await b?.believes();
    },
  },
];

function splitVoters(guard: "none" | "fence"): Arm {
  const habits = { quorum: 3, token: "write-back", jitter: false } as const;
  return { lock: { kind: "redlock", nodes: 5, habits }, guard, holds: false };
}
