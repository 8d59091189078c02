import type { RedlockHabits } from "../clients/redlock-client.ts";
import type { Play, PlayMessage } from "./play.ts";
import { type Arm, type ArmName, arms, type Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

const TTL = { ttlMs: 2000 };
/** More grants than the new lock gives in the time of S50. */
const FAR_AHEAD = 10;

function redlockArms(
  naive: RedlockHabits,
  ours: RedlockHabits,
  nodes = 5,
): Readonly<Record<ArmName, Arm>> {
  return {
    naive: { lock: { kind: "redlock", habits: naive, nodes }, guard: "none", holds: false },
    fence: { lock: { kind: "redlock", habits: naive, nodes }, guard: "fence", holds: false },
    ringfence: { lock: { kind: "redlock", habits: ours, nodes }, guard: "claim", holds: true },
  };
}

/** Redlock by hand, and the production driver with a quorum of its own. */
function quorumArms(naive: RedlockHabits, quorum: number): Readonly<Record<ArmName, Arm>> {
  const lock = { kind: "quorum", quorum } as const;
  return { ...redlockArms(naive, naive), ringfence: { lock, guard: "claim", holds: true } };
}

const THREE_OF_FIVE: RedlockHabits = { quorum: 3, token: "max" };

/** A holds with just a quorum; then something happens to one server of it; B asks all the others and that one. */
async function splitQuorum(s: Play, spoil: (server: string) => unknown): Promise<void> {
  const quorum = s.armName === "ringfence" ? 4 : 3;
  for (const name of ["A", "B"]) s.client(name);
  for (const server of s.servers.slice(quorum)) s.cut("A", server);
  for (const server of s.servers.slice(0, 5 - quorum)) s.cut("B", server);
  const a = await s.acquire("A", { ttlMs: 6000 });
  await spoil(s.servers[quorum - 1] ?? "");
  const b = await s.client("B").acquire("L", { ttlMs: 6000, waitMs: 3000 });
  await a.believes();
  await b?.believes();
}

async function failedOver(s: Play): Promise<void> {
  if (s.servers.length > 1) s.cut(s.server, s.servers[1] ?? "", true);
  const terms = { ttlMs: 10_000 };
  const a = await s.acquire("A", terms);
  const fromA = await s.open("A", a);
  await s.failOver();
  const b = await s.acquire("B", terms);
  const fromB = await s.open("B", b);
  await s.write("B", b, fromB);
  await s.write("A", a, fromA);
}

/** What a lock service does that forgets, restarts, or is one of several. */
export const SERVERS: readonly Scenario[] = [
  {
    id: "S08",
    name: "async-failover",
    title:
      "a replica that never heard of the grant is promoted, and hands out the same number again",
    property: "P4",
    arms: arms({ replicas: 1 }),
    withinMs: 60_000,
    real: { clients: ["A", "B"] },
    play: failedOver,
  },
  {
    id: "S09",
    name: "wait-one-replica",
    title: "WAIT was satisfied by another replica than the one that is promoted",
    property: "P4",
    arms: arms({ replicas: 2, naive: { replicas: 1 }, driver: { replicas: 1 } }),
    withinMs: 60_000,
    real: { clients: ["A", "B"], query: "replicas=1" },
    play: failedOver,
  },
  {
    id: "S11",
    name: "redlock-clock-jump",
    title: "one of five clocks jumps: two quorums share only that server",
    property: "P1",
    arms: quorumArms(THREE_OF_FIVE, 4),
    withinMs: 60_000,
    real: { clients: ["A", "B"], clock: true },
    async play(s: Play): Promise<void> {
      await splitQuorum(s, (server) => {
        s.step(server, 40_000);
      });
    },
  },
  {
    id: "S12",
    name: "redlock-restart",
    title: "one of five servers restarts without its memory",
    property: "P1",
    arms: quorumArms(THREE_OF_FIVE, 4),
    withinMs: 60_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      await splitQuorum(s, async (server) => s.restartServer(server, "nothing"));
    },
  },
  {
    id: "S13",
    name: "pause-while-acquiring",
    title: "the answers to acquire wait in a paused client for longer than the ttl",
    property: "P1",
    arms: quorumArms({ ...THREE_OF_FIVE, secondLook: false, timeoutMs: 60_000 }, 3),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      const answer = ({ label }: PlayMessage): boolean =>
        label === "takeAndCount reply" || label === "take reply";
      s.client("A");
      const answers = s.servers.map((server) => s.hold(server, "A", answer));
      const acquiring = s.client("A").acquire("L", TTL);
      await Promise.all(answers.map(async ({ caught }) => caught));
      s.pauseFor("A", 2500);
      for (const release of answers) release();
      void s.must("B", s.section("B", TTL, 1500));
      const a = await acquiring;
      await a?.believes();
      await a?.release();
    },
  },
  {
    id: "S15",
    name: "redlock-naive-token",
    title: "the largest of a quorum's counters as a token",
    property: "P5",
    arms: quorumArms(THREE_OF_FIVE, 3),
    weather: { delaysMs: [1, 10, 40, 90], weights: [4, 2, 1, 1], lose: 0.4, repeat: 0 },
    seeds: 8,
    withinMs: 3000,
    play: contend,
  },
  {
    id: "S45",
    name: "redlock-re-ask",
    title: "a second delivery of an acquire sets the lock anew, and its counter with it",
    property: "P5",
    arms: redlockArms(
      { quorum: 2, token: "write-back unbound", asksTwice: true, timeoutMs: 50 },
      { quorum: 2, token: "write-back", asksTwice: true, timeoutMs: 50 },
      3,
    ),
    withinMs: 5000,
    play: secondDelivery,
  },
  {
    id: "S50",
    name: "another-locks-tokens",
    title: "a resource moves to another lock, whose numbers are far below the old one's",
    property: "P8",
    arms: {
      naive: { lock: { kind: "redis", habits: { token: true } }, guard: "fence", holds: false },
      fence: { lock: { kind: "redis", habits: { token: true } }, guard: "fence", holds: false },
      ringfence: { lock: { kind: "core", redis: {} }, guard: "claim", holds: true },
    },
    withinMs: 10_000,
    real: { clients: ["A", "B"], file: true },
    play: moved,
  },
  {
    id: "S20",
    name: "two-step-acquire",
    title: "the client dies between SETNX and EXPIRE",
    property: "P8",
    arms: arms({ naive: { take: "two-step" } }),
    withinMs: 5000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      s.client("A");
      const second = s.hold("A", s.server, "PEXPIRE");
      await Promise.race([second.caught, s.client("A").acquire("L", TTL)]);
      s.kill("A");
      await s.section("B", TTL);
    },
  },
  {
    id: "S21",
    name: "get-then-set",
    title: "two clients look, both see the lock free, both set it",
    property: "P1",
    arms: arms({ naive: { take: "get-set" } }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      s.client("A");
      const set = s.hold("A", s.server, "SET");
      const acquiring = s.client("A").acquire("L", TTL);
      await Promise.race([set.caught, acquiring]);
      const working = async (): Promise<void> => {
        const a = await acquiring;
        await s.sleep("A", 200);
        await a?.release();
      };
      void s.must("A", working());
      const b = await s.acquire("B", TTL);
      set();
      await s.sleep("B", 200);
      await b.release();
    },
  },
];

/**
 * A holds S1 and S3, and its write-back to S1 is late. Meanwhile S1 forgets A's lock, B holds S1 and S2 with the number
 * that A computed, and S1 forgets B's. A's second delivery sets S1 anew; then the write-back arrives.
 */
async function secondDelivery(s: Stage): Promise<void> {
  const [s1 = "", s2 = "", s3 = ""] = s.servers;
  const terms = { ttlMs: 30_000, waitMs: 0 };
  for (const name of ["A", "B"]) s.client(name);
  await s.redis[2]?.call(s.process("O"), ["INCR", "counter:L"]);
  s.world.cut("A", s2, "lose");
  s.world.cut("B", s3, "lose");
  const taken = { count: 0 };
  const release = s.hold(
    "A",
    s1,
    ({ label }) => label === "writeBack" || (label === "takeAndCount" && taken.count++ > 0),
  );
  const acquiring = s.client("A").acquire("L", terms);
  await s.after(5);
  s.world.step(s1, 40_000);
  await s.client("B").acquire("L", terms);
  s.world.step(s1, 40_000);
  release();
  await acquiring;
}

/**
 * The old lock's numbers run far ahead, then everybody uses the new one. Tokens of two locks don't compare: a number alone
 * is refused for ever; a guard that knows scopes says whose entry it is, and is told to move it.
 */
async function moved(s: Play): Promise<void> {
  let from = "";
  for (let i = 0; i < FAR_AHEAD; i += 1) {
    const held = await s.acquire("A", TTL, "old");
    from = held.scope;
    if (i === FAR_AHEAD - 1) await s.write("A", held, await s.open("A", held));
    await held.release();
  }
  await s.must(
    "a write under the new lock",
    (async () => {
      for (;;) {
        const held = await s.acquire("B", TTL, "new");
        const written = await s.write("B", held, await s.open("B", held));
        await held.release();
        if (written !== null) return;
        if (s.ours) s.adopt({ from, to: held.scope, floor: 0n });
        await s.sleep("B", 1500);
      }
    })(),
  );
}

/** Three clients take and give back one lock while messages are late or lost. */
async function contend(s: Stage): Promise<void> {
  // Ours takes no ttl below half a second.
  const ttlMs = s.ours ? 500 : 120;
  for (const name of ["A", "B", "C"])
    void (async () => {
      for (;;) {
        const held = await s.client(name).acquire("L", { ttlMs, waitMs: 500 });
        if (held !== null) {
          await s.sleep(name, 20);
          await held.release();
        }
        await s.sleep(name, 5);
      }
    })();
  await s.after(2900);
}
