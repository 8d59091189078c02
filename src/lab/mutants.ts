import type { Ask, Backend, GrantRef, Io } from "../core/driver.ts";
import { withoutTombstones } from "./scenarios/messages.ts";
import type { Play } from "./scenarios/play.ts";
import { arms, type Scenario } from "./scenarios/scenario.ts";
import type { Stage } from "./scenarios/stage.ts";
import type { Tamper } from "./servers/table.ts";

/** A wrong driver, and what must notice it: a scenario's Ringfence arm, one of `TRAPS`, or the exploration of the core. */
export interface Mutant {
  readonly name: string;
  readonly tamper: Tamper;
  readonly killer: string;
}

const RENEWED = { ttlMs: 6000, renews: true };

/** A renewal of A hangs in the network until A's lease has lapsed; `then` goes on from there. */
async function lateRenewal(s: Play, then: (release: () => void) => Promise<void>): Promise<void> {
  await s.acquire("A", RENEWED);
  const release = s.hold("A", s.server, "renew");
  await s.after(7000);
  await then(release);
}

/** Scenarios that only wrong drivers fail; all are judged as P8: something does not come to its end. */
export const TRAPS: readonly Scenario[] = [
  {
    id: "late-renewal",
    name: "late-renewal",
    title: "a renewal lands when its lease has lapsed and the name is free",
    property: "P8",
    arms: arms(),
    withinMs: 8500,
    play: async (s) =>
      lateRenewal(s, async (release) => {
        release();
        await s.after(10);
        await s.section("C", { ttlMs: 1000 });
      }),
  },
  {
    id: "late-renewal-of-another",
    name: "late-renewal-of-another",
    title: "a renewal lands when its lease has lapsed and another one holds the name",
    property: "P8",
    arms: arms(),
    withinMs: 9000,
    play: async (s) =>
      lateRenewal(s, async (release) => {
        await s.acquire("B", { ttlMs: 1000 });
        release();
        await s.section("C", { ttlMs: 1000 });
      }),
  },
  {
    id: "abandoned-acquire",
    name: "abandoned-acquire",
    title: "an acquire lands when its caller has given up",
    property: "P8",
    arms: arms(),
    withinMs: 4000,
    async play(s: Stage): Promise<void> {
      s.client("A");
      const release = s.hold("A", s.server, "attempt");
      await s.client("A").acquire("L", { ttlMs: 6000, waitMs: 500 });
      await s.after(500);
      release();
      await s.after(10);
      await s.section("C", { ttlMs: 1000 });
    },
  },
  {
    id: "renewal-of-nothing",
    name: "renewal-of-nothing",
    title: "the server has forgotten the lease that is renewed",
    property: "P8",
    arms: arms(),
    // Told by the next renewal, long before the deadline.
    withinMs: 4000,
    async play(s: Stage): Promise<void> {
      const a = await s.acquire("A", RENEWED);
      await s.restartServer(s.server, "nothing");
      while (a.believes()) await s.sleep("A", 500);
    },
  },
];

/** The same backend with some of its calls replaced. */
function changed(backend: Backend, calls: Partial<Backend>): Backend {
  return new Proxy(backend, {
    get(target, key) {
      const own = Reflect.get(calls, key) as unknown;
      if (own !== undefined) return own;
      const value = Reflect.get(target, key) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

function askFor(ref: GrantRef): Ask {
  return { ...ref, permits: 1, holder: "", tokens: 1, join: "no" };
}

/** Who holds the name, instead of who is asked about. */
async function holderOf(backend: Backend, ref: GrantRef, io: Io): Promise<GrantRef> {
  const record = await backend.inspect(ref.name, io);
  return { ...ref, grantId: record.holders[0]?.grantId ?? ref.grantId };
}

/** Planted faults of a driver. Each one is noticed, or a test fails. */
export const MUTANTS: readonly Mutant[] = [
  { name: "a release leaves no tombstone", tamper: withoutTombstones, killer: "S44" },
  {
    name: "a release frees whoever holds the name",
    tamper: (backend) =>
      changed(backend, {
        async release(grants, io) {
          return await backend.release(
            await Promise.all(grants.map(async (ref) => holderOf(backend, ref, io))),
            io,
          );
        },
      }),
    killer: "core",
  },
  {
    name: "a renewal extends whoever holds the name",
    tamper: (backend) =>
      changed(backend, {
        async renew(grants, io) {
          return await backend.renew(
            await Promise.all(grants.map(async (ref) => holderOf(backend, ref, io))),
            io,
          );
        },
      }),
    killer: "late-renewal-of-another",
  },
  {
    name: "a renewal makes a lapsed lease again",
    tamper: (backend) =>
      changed(backend, {
        async renew(grants, io) {
          const renewals = await backend.renew(grants, io);
          return await Promise.all(
            renewals.map(async (renewal, i) => {
              const ref = grants[i];
              if (renewal.kind !== "gone" || ref === undefined) return renewal;
              const again = await backend.attempt(askFor(ref), io);
              return again.kind === "granted" ? { kind: "renewed", ttlMs: ref.ttlMs } : renewal;
            }),
          );
        },
      }),
    killer: "late-renewal",
  },
  {
    name: "a renewal is always confirmed",
    tamper: (backend) =>
      changed(backend, {
        async renew(grants, io) {
          await backend.renew(grants, io);
          return grants.map(({ ttlMs }) => ({ kind: "renewed", ttlMs }));
        },
      }),
    killer: "renewal-of-nothing",
  },
  {
    name: "an acquire is granted beside another's lease",
    tamper: (backend) =>
      changed(backend, {
        async attempt(ask, io) {
          const answer = await backend.attempt(ask, io);
          if (answer.kind !== "busy" || answer.blockedBy !== "lease") return answer;
          const tokens = { first: 1n, count: 1 };
          return {
            kind: "granted",
            tokens,
            takenOver: false,
            previousToken: null,
            ttlMs: ask.ttlMs,
          };
        },
      }),
    killer: "core",
  },
  {
    name: "every grant has the same token",
    tamper: (backend) =>
      changed(backend, {
        async attempt(ask, io) {
          const answer = await backend.attempt(ask, io);
          return answer.kind === "granted"
            ? { ...answer, tokens: { first: 7n, count: 1 } }
            : answer;
        },
      }),
    killer: "core",
  },
  {
    name: "the quiet time after a vanished holder is left out",
    tamper: (backend) =>
      changed(backend, {
        attempt: async (ask, io) => backend.attempt({ ...ask, lockDelayMs: 0 }, io),
        renew: async (grants, io) =>
          backend.renew(
            grants.map((ref) => ({ ...ref, lockDelayMs: 0 })),
            io,
          ),
      }),
    killer: "S23",
  },
  {
    name: "the backend keeps a lease for half as long as asked",
    tamper: (backend) =>
      changed(backend, {
        attempt: async (ask, io) => {
          const answer = await backend.attempt({ ...ask, ttlMs: ask.ttlMs / 2 }, io);
          return answer.kind === "granted" ? { ...answer, ttlMs: ask.ttlMs } : answer;
        },
      }),
    killer: "core",
  },
];
