import type { Play } from "./play.ts";
import { arms, type Scenario } from "./scenario.ts";

const TTL = { ttlMs: 2000 };

/** How a lease passes on by other ways than its end: handed over, freed by an operator, shared with readers. */
export const HANDING_OVER: readonly Scenario[] = [
  {
    id: "S49",
    name: "redelivered-hand-over",
    title: "a lease is handed to another process, and the message is delivered twice",
    property: "P4",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B", "C"], file: true },
    async play(s: Play): Promise<void> {
      const terms = { ttlMs: 10_000 };
      const a = await s.acquire("A", terms);
      const message = (await a.handOver?.()) ?? "";
      const b = await s.client("B").resume?.(message, "L", terms);
      const c = await s.client("C").resume?.(message, "L", terms);
      const works: (() => Promise<unknown>)[] = [];
      for (const [name, held] of [
        ["B", b],
        ["C", c],
      ] as const) {
        if (held === null || held === undefined) continue;
        const from = await s.open(name, held);
        works.push(async () => s.write(name, held, from));
      }
      for (const work of works) await work();
    },
  },
  {
    id: "S55",
    name: "torn-read",
    title: "a writer is paused half-way, and readers see half of what it does",
    property: "P4",
    arms: {
      naive: { lock: { kind: "core", redis: {} }, guard: "none", holds: false },
      fence: { lock: { kind: "core", redis: {} }, guard: "fence", holds: false },
      // Readers that must not see half of it take the lock for themselves, and claim.
      ringfence: { lock: { kind: "core", redis: {} }, guard: "claim", holds: true },
    },
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      for (const res of ["R0", "R1"]) await s.claim("A", a, res);
      const [from0, from1] = [await s.read("A", a, "R0"), await s.read("A", a, "R1")];
      await s.write("A", a, from0, "R0");
      s.pauseFor("A", 2600);
      const b = await s.acquire("B", { ttlMs: 5000, shared: s.armName !== "ringfence" });
      if (s.armName === "ringfence") for (const res of ["R0", "R1"]) await s.claim("B", b, res);
      await s.read("B", b, "R0");
      await s.read("B", b, "R1");
      await s.sleep("A", 0);
      await s.write("A", a, from1, "R1");
      await b.release();
    },
  },
  {
    id: "S58",
    name: "revoke-and-repair",
    title:
      "an operator frees the lock and repairs the data by hand, while the holder, unaware, writes",
    property: "P4",
    arms: arms({ fenceHolds: false }),
    withinMs: 20_000,
    real: { clients: ["A", "O"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", { ttlMs: 10_000 });
      const from = await s.open("A", a);
      await s.revoke("O");
      const late = async (): Promise<void> => {
        await s.write("A", a, from);
      };
      if (s.armName !== "ringfence") {
        await s.byHand("O", late);
        return;
      }
      // Whoever repairs is a holder like any other: acquires, and claims before reading.
      const o = await s.acquire("O", TTL);
      const seen = await s.open("O", o);
      await late();
      await s.write("O", o, seen);
      await o.release();
    },
  },
];
