import type { Play, PlayHeld } from "./play.ts";
import { arms, type Scenario } from "./scenario.ts";

const TTL = { ttlMs: 2000 };

/**
 * What each arm sends along to a service that cannot check: nothing; its grant, which is another one for whoever does the
 * work again; what the effect is.
 */
function keyOf(s: Play, grant: string, business: string): string {
  if (s.armName === "naive") return "";
  return s.armName === "fence" ? grant : business;
}

/** What happens at services that know nothing of locks: only a key that names the effect helps. */
export const EFFECTS: readonly Scenario[] = [
  {
    id: "S35",
    name: "payment-twice",
    title: "a holder is paused before it charges, and its successor charges as well",
    property: "P10",
    arms: arms(),
    withinMs: 20_000,
    real: { clients: ["A", "B", "C"], file: true },
    async play(s: Play): Promise<void> {
      const charge = async (name: string, held: PlayHeld, body: string): Promise<void> =>
        s.order(name, held, "invoice 7", {
          key: keyOf(s, held.grant, "invoice 7"),
          body,
        });
      const a = await s.acquire("A", TTL);
      s.pauseFor("A", 2500);
      const b = await s.acquire("B", TTL);
      await charge("B", b, "100 EUR");
      await charge("A", a, "100 EUR");
      await b.release();
      // The same key with another body is a mistake, and has to be told so.
      const c = await s.acquire("C", TTL);
      await charge("C", c, "90 EUR");
    },
  },
  {
    id: "S40",
    name: "nightly-report",
    title: "a failover lets two replicas run the nightly job; the lock only saves work",
    property: "P10",
    arms: arms({ replicas: 1 }),
    withinMs: 20_000,
    real: { clients: ["A", "B"] },
    async play(s: Play): Promise<void> {
      if (s.servers.length > 1) s.cut(s.server, s.servers[1] ?? "", true);
      const a = await s.acquire("A", { ttlMs: 10_000 });
      await s.failOver();
      const b = await s.acquire("B", { ttlMs: 10_000 });
      const night = "report of 2026-03-01";
      for (const [name, held] of [
        ["A", a],
        ["B", b],
      ] as const)
        await s.order(name, held, night, { key: keyOf(s, held.grant, night), body: "figures" });
    },
  },
];
