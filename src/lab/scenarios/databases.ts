import type { PlainHabits } from "../clients/plain-client.ts";
import type { PostgresOptions } from "../servers/postgres-server.ts";
import type { Play } from "./play.ts";
import type { Arm, ArmName, Scenario } from "./scenario.ts";

/** A lock by hand in a PostgreSQL, the same with a token and a check on write, and the lease table. */
function arms(habits: PlainHabits, server: PostgresOptions = {}): Readonly<Record<ArmName, Arm>> {
  const byHand = { kind: "postgres", server } as const;
  return {
    naive: { lock: { ...byHand, habits }, guard: "none", holds: false },
    fence: {
      lock: { ...byHand, habits: { ...habits, token: true } },
      guard: "fence",
      holds: false,
    },
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

const COUNTED: PlainHabits = { how: "lease", token: true };

/** What goes wrong with locks in a PostgreSQL. */
export const DATABASES: readonly Scenario[] = [
  {
    id: "S28",
    name: "advisory-through-pooler",
    title:
      "locks of a session through a pooler in transaction mode: the next client is given the same session",
    property: "P1",
    arms: arms({ how: "advisory" }, { pooler: 2 }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    play: both,
  },
  {
    id: "S51",
    name: "pooler-with-stable-pid",
    title:
      "five statements on one backend pid are taken for a session of one's own, behind a pooler",
    property: "P1",
    arms: arms({ how: "advisory", checksPid: true }, { pooler: 2 }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    play: both,
  },
  {
    id: "S29",
    name: "session-of-a-lost-host",
    title:
      "the host of a holder is gone without a word: its session, and its lock, stay at the server",
    property: "P8",
    arms: arms({ how: "advisory" }),
    withinMs: 10_000,
    real: { clients: ["A", "B"], away: ["A"] },
    async play(s: Play): Promise<void> {
      await s.acquire("A", { ttlMs: 3000 });
      s.cut("A", s.server);
      s.kill("A");
      await s.section("B", { ttlMs: 3000 });
    },
  },
  {
    id: "S30",
    name: "lease-by-now",
    title:
      "a lease by `now()`, taken in a transaction that has been open for longer than its ttl, is over when it begins",
    property: "P1",
    arms: arms({ how: "lease", ages: { A: 4000 } }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    play: both,
  },
  {
    id: "S31",
    name: "token-not-on-disk",
    title:
      "with `synchronous_commit` off the server dies before a grant is on disk, and gives its token again",
    property: "P5",
    arms: arms({ how: "lease", token: true }, { synchronousCommit: "off" }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      await s.acquire("A", { ttlMs: 3000 });
      await s.restartServer(s.server, "synced");
      await s.acquire("B", { ttlMs: 3000, waitMs: 10_000 });
    },
  },
  {
    id: "S32",
    name: "guard-row-not-locked",
    title:
      "a transaction looks at the guard's row without locking it, stands still, and writes after a newer one",
    property: "P3",
    arms: arms(COUNTED),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      await overtaken(s, { row: "looked at" });
    },
  },
  {
    id: "S42",
    name: "older-snapshot",
    title:
      "a holder's transaction has an older snapshot: under the guard's row it reads what was overwritten",
    property: "P4",
    arms: arms(COUNTED),
    withinMs: 30_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      await overtaken(s, { row: "locked", old: true });
    },
  },
  {
    id: "S52",
    name: "paused-in-transaction",
    title:
      "a holder is paused inside its guarded transaction, and keeps its successor out for as long",
    property: "P8",
    arms: arms(COUNTED),
    withinMs: 10_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      void overtaken(s, { row: "locked" }, 60_000).catch(() => undefined);
      await s.after(8000);
    },
  },
];

/** A and B update one row under a lease each, B when A's is over: A stands still between its read and its write. */
async function overtaken(
  s: Play,
  how: { readonly row: "locked" | "looked at"; readonly old?: boolean },
  pauseMs = 4000,
): Promise<void> {
  const update = { ...how, refuses: s.armName === "fence" };
  const terms = { ttlMs: 2000 };
  const a = await s.acquire("A", terms);
  const late = s.update("A", a, { ...update, old: false, pauseMs });
  // Where A's session is ended under it, that is all that becomes of it.
  late.catch(() => undefined);
  const b = await s.acquire("B", terms);
  await s.must("B", s.update("B", b, update));
  await late.catch(() => undefined);
}
