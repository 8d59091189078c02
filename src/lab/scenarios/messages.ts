import type { Backend } from "../../core/driver.ts";
import type { Play, PlayMessage } from "./play.ts";
import { arms, type Scenario } from "./scenario.ts";

const TTL = { ttlMs: 2000 };
const RENEWED = { ttlMs: 2000, renews: true };

/** A backend that forgets to refuse the late packets of what was released. */
export function withoutTombstones(backend: Backend): Backend {
  return new Proxy(backend, {
    get(target, key) {
      if (key === "release")
        return async (
          grants: Parameters<Backend["release"]>[0],
          io: Parameters<Backend["release"]>[1],
        ) =>
          target.release(
            grants.map((ref) => ({ ...ref, refuseLateMs: 0 })),
            io,
          );
      const value = Reflect.get(target, key) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

const isReply =
  (...to: readonly string[]) =>
  ({ label }: PlayMessage): boolean =>
    to.some((call) => label === `${call} reply`);

/** What late, lost and repeated messages do. */
export const MESSAGES: readonly Scenario[] = [
  {
    id: "S03",
    name: "delayed-packet",
    title: "a write is under way while its holder releases and another one works",
    property: "P4",
    arms: arms({ fenceHolds: true }),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      const from = await s.open("A", a);
      const release = s.hold("A", "X", "write");
      const writing = s.write("A", a, from);
      await release.caught;
      await a.release();
      await s.section("B", TTL);
      release();
      await writing;
    },
  },
  {
    id: "S04",
    name: "claim-gap",
    title: "a late write comes before the successor's first write, after its read",
    property: "P4",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      const fromA = await s.open("A", a);
      const release = s.hold("A", "X", "write");
      const writing = s.write("A", a, fromA);
      await release.caught;
      await a.release();
      const b = await s.acquire("B", TTL);
      const fromB = await s.open("B", b);
      release();
      await writing;
      await s.write("B", b, fromB);
      await b.release();
    },
  },
  {
    id: "S05",
    name: "delete-of-anothers-lock",
    title: "a holder that overran its ttl deletes what is now another's lock",
    property: "P1",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B", "C"], file: true },
    async play(s: Play): Promise<void> {
      const a = await s.acquire("A", TTL);
      s.pauseFor("A", 3000);
      const b = await s.acquire("B", { ttlMs: 5000 });
      void s.must("C", s.section("C", TTL));
      await s.sleep("A", 0);
      await a.release();
      await s.sleep("B", 2000);
      await b.release();
    },
  },
  {
    id: "S06",
    name: "lost-acquire-reply",
    title: "the answer to acquire is lost, and the client is in its own way",
    property: "P8",
    arms: arms({ naive: { retryMs: 500 } }),
    withinMs: 4000,
    real: { clients: ["A"] },
    async play(s: Play): Promise<void> {
      s.drop(s.server, "A", isReply("SET", "attempt"));
      await s.section("A", { ttlMs: 6000 });
    },
  },
  {
    id: "S07",
    name: "release-retried-late",
    title:
      "the answer to a release is lost; its retry comes when the same process holds the lock anew",
    property: "P1",
    arms: arms({ naive: { retriesRelease: true } }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      const first = await s.acquire("A", RENEWED);
      s.drop(s.server, "A", isReply("DEL", "release"));
      void s.must("release", first.release());
      await s.sleep("A", 20);
      const second = await s.acquire("A", RENEWED);
      void s.must("B", s.section("B", TTL));
      await s.sleep("A", 1500);
      await second.believes();
      await second.release();
    },
  },
  {
    id: "S23",
    name: "lock-delay",
    title: "a vanished holder's write is under way for longer than its lease",
    property: "P2",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const lockDelayMs = s.ours ? 5000 : 0;
      const a = await s.acquire("A", { ttlMs: 2000, lockDelayMs });
      const from = await s.open("A", a);
      const release = s.hold("A", "X", "write");
      void s.write("A", a, from);
      await release.caught;
      s.kill("A");
      void s.must("B", s.section("B", { ttlMs: 2000, lockDelayMs }));
      await s.after(3000);
      release();
    },
  },
  {
    id: "S46",
    name: "lock-delay-cancelled",
    title:
      "a holder that lost its lease cleans up, and cancels the quiet time that protects from its own packets",
    property: "P2",
    arms: arms({ naive: { release: "compare-and-delete" } }),
    withinMs: 20_000,
    real: { clients: ["A", "B"], file: true },
    async play(s: Play): Promise<void> {
      const terms = { ttlMs: 2000, lockDelayMs: 5000 };
      const a = await s.acquire("A", terms);
      const from = await s.open("A", a);
      const release = s.hold("A", "X", "write");
      void s.write("A", a, from);
      await release.caught;
      s.pauseFor("A", 2500);
      void s.must("B", s.section("B", { ...terms, renews: true }, 3000));
      await s.sleep("A", 0);
      await a.release();
      await s.after(1500);
      release();
    },
  },
  {
    id: "S44",
    name: "ghost-grant",
    title:
      "an acquire hangs in the network, is asked again, granted and released; then the first one lands",
    property: "P8",
    arms: {
      naive: {
        lock: { kind: "core", redis: {}, tamper: withoutTombstones },
        guard: "none",
        holds: false,
      },
      fence: {
        lock: { kind: "core", redis: {}, tamper: withoutTombstones },
        guard: "fence",
        holds: false,
      },
      ringfence: { lock: { kind: "core", redis: {} }, guard: "claim", holds: true },
    },
    withinMs: 6000,
    real: { clients: ["A", "B", "C"] },
    async play(s: Play): Promise<void> {
      const seen = { count: 0 };
      s.client("A");
      const release = s.hold(
        "A",
        s.server,
        ({ label }) => label === "attempt" && seen.count++ === 0,
      );
      await s.section("A", { ttlMs: 6000 });
      await s.section("B", TTL);
      release();
      await s.after(10);
      await s.section("C", TTL);
    },
  },
  {
    id: "S48",
    name: "deadline-after-re-ask",
    title:
      "the answer to acquire is lost, and the deadline is counted from the second time of asking",
    property: "P6",
    arms: arms({ naive: { retryMs: 3000, adopts: true } }),
    withinMs: 20_000,
    real: { clients: ["A"] },
    async play(s: Play): Promise<void> {
      s.drop(s.server, "A", isReply("SET", "attempt"));
      const a = await s.acquire("A", { ttlMs: 6000 });
      await s.after(7000 - s.now);
      await a.believes();
    },
  },
];
