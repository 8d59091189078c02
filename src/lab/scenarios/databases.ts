import type { PlainHabits } from "../clients/plain-client.ts";
import type { PostgresOptions } from "../servers/postgres-server.ts";
import type { Play } from "./play.ts";
import type { Arm, ArmName, Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

/** A lock by hand in a PostgreSQL, the same with a token and a check on write, and the lease table. */
function arms(
  habits: PlainHabits,
  server: PostgresOptions = {},
): Readonly<Record<ArmName, Arm>> {
  const byHand = { kind: "postgres", server } as const;
  return {
    naive: { lock: { ...byHand, habits }, guard: "none", holds: false },
    fence: { lock: { ...byHand, habits: { ...habits, token: true } }, guard: "fence", holds: false },
    ringfence: { lock: { kind: "postgres", server }, guard: "claim", holds: true },
  };
}

/** Two take one lock one after the other, and are asked what they believe. */
async function both(s: Play): Promise<void> {
  const a = await s.acquire("A", { ttlMs: 3000 });
  const b = await s.client("B").acquire("L", { ttlMs: 3000, waitMs: 1000 });
  await a.believes();
  await b?.believes();
  await s.after(100);
}

/** What goes wrong with locks in a PostgreSQL. */
export const DATABASES: readonly Scenario[] = [
  {
    id: "S28",
    name: "advisory-through-pooler",
    title: "locks of a session through a pooler in transaction mode: the next client is given the same session",
    property: "P1",
    arms: arms({ how: "advisory" }, { pooler: 2 }),
    withinMs: 20_000,
    play: both,
  },
  {
    id: "S51",
    name: "pooler-with-stable-pid",
    title: "five statements on one backend pid are taken for a session of one's own, behind a pooler",
    property: "P1",
    arms: arms({ how: "advisory", checksPid: true }, { pooler: 2 }),
    withinMs: 20_000,
    play: both,
  },
  {
    id: "S29",
    name: "session-of-a-lost-host",
    title: "the host of a holder is gone without a word: its session, and its lock, stay at the server",
    property: "P8",
    arms: arms({ how: "advisory" }),
    withinMs: 60_000,
    async play(s: Stage): Promise<void> {
      await s.acquire("A", { ttlMs: 3000 });
      s.cut("A", s.server);
      s.kill("A");
      await s.section("B", { ttlMs: 3000 });
    },
  },
  {
    id: "S30",
    name: "lease-by-now",
    title: "a lease by `now()`, taken in a transaction that has been open for longer than its ttl, is over when it begins",
    property: "P1",
    arms: arms({ how: "lease", ages: { A: 4000 } }),
    withinMs: 20_000,
    play: both,
  },
  {
    id: "S31",
    name: "token-not-on-disk",
    title: "with `synchronous_commit` off the server dies before a grant is on disk, and gives its token again",
    property: "P5",
    arms: arms({ how: "lease", token: true }, { synchronousCommit: "off" }),
    withinMs: 20_000,
    async play(s: Play): Promise<void> {
      await s.acquire("A", { ttlMs: 3000 });
      await s.restartServer(s.server, "synced");
      await s.acquire("B", { ttlMs: 3000, waitMs: 10_000 });
    },
  },
];
