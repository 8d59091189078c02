import type { Ask, Backend, GrantRef } from "../../src/core/driver.ts";
import type { FakeClock } from "../../src/testing/fake-clock.ts";
import { FakeRandom } from "../../src/testing/fake-random.ts";

/** One call on one of the processes, or time that passes. */
export type Call =
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "attempt"; readonly by: number; readonly ask: Ask }
  | { readonly do: "renew" | "release"; readonly by: number; readonly refs: readonly GrantRef[] }
  | { readonly do: "revoke"; readonly by: number; readonly ref: GrantRef; readonly now: boolean }
  | { readonly do: "exchange"; readonly by: number; readonly from: string; readonly ask: Ask }
  | { readonly do: "inspect"; readonly by: number; readonly name: string }
  | { readonly do: "list"; readonly by: number; readonly limit: number };

export const PROCESSES = 2;
const NAMES = ["a", "b", "c d"] as const;

/** Calls as a core may make them: an id keeps its name, mode and terms, and belongs to one process. */
export function callsOf(seed: number, count: number): Call[] {
  const random = new FakeRandom(seed);
  const one = <T>(options: readonly T[]): T => options[Math.floor(random.unit() * options.length)]!;
  const asks: { readonly ask: Ask; readonly by: number }[] = [];
  const modeOf = {
    a: ["exclusive"],
    b: ["exclusive", "shared", "shared"],
    "c d": ["permits"],
  } as const;
  const fresh = (): { ask: Ask; by: number } => {
    const name = one(NAMES);
    const mode = one<Ask["mode"]>(modeOf[name]);
    const ask: Ask = {
      name,
      mode,
      permits: mode === "permits" ? one([2, 2, 2, 3]) : 1,
      grantId: `g${asks.length}`,
      holder: `holder ${asks.length}`,
      ttlMs: one([300, 1000, 10_000]),
      lockDelayMs: one([0, 0, 500]),
      tokens: mode === "exclusive" ? one([1, 1, 3]) : 1,
      join: "no",
    };
    const made = { ask, by: one([0, 1]) };
    asks.push(made);
    return made;
  };
  const known = (): { ask: Ask; by: number } =>
    asks.length === 0 || random.unit() < 0.3 ? fresh() : one(asks.slice(-7));
  const refOf = ({ ask }: { ask: Ask }): GrantRef => {
    const { name, mode, grantId, ttlMs, lockDelayMs } = ask;
    return { name, mode, grantId, ttlMs, lockDelayMs };
  };
  // So many that a store which cleans up in passing does it now.
  const many = Array.from({ length: 256 }, (_, n) => ({ ...refOf(fresh()), grantId: `none ${n}` }));
  asks.length = 0;
  const planned: Call[] = [];
  const next = (): Call => {
    const plan = planned.shift();
    if (plan !== undefined) return plan;
    const roll = random.unit();
    if (roll < 0.2) return { do: "pass", ms: one([1, 100, 350, 1100, 3100, 11_000]) };
    if (roll < 0.203) return { do: "release", by: one([0, 1]), refs: many };
    const { ask, by } = known();
    if (roll < 0.55) {
      const above = random.unit() < 0.05 ? { above: 2_000_000_000_000_000n } : {};
      return {
        do: "attempt",
        by,
        ask: { ...ask, join: one(["no", "yes", "yes", "kept"]), ...above },
      };
    }
    if (roll < 0.65) {
      const others = asks.slice(-5).filter((each) => each.by === by);
      const refs = random.unit() < 0.3 ? others.map(refOf) : [refOf({ ask })];
      return { do: "renew", by, refs };
    }
    if (roll < 0.82) {
      const late = random.unit() < 0.3 ? { refuseLateMs: 60_000 } : {};
      const raised = random.unit() < 0.05 ? { raiseTo: 2_100_000_000_000_000n } : {};
      return { do: "release", by, refs: [{ ...refOf({ ask }), ...late, ...raised }] };
    }
    if (roll < 0.85) {
      const ref = refOf({ ask });
      // It holds then, if it can; and what a holder does that hears of it late.
      planned.push({ do: "revoke", by, ref, now: random.unit() < 0.4 });
      planned.push({ do: "release", by, refs: [{ ...ref, refuseLateMs: 60_000 }] });
      planned.push({ do: "renew", by, refs: [ref] });
      return { do: "attempt", by, ask: { ...ask, join: "no" } };
    }
    if (roll < 0.92) {
      const to = fresh();
      const { name, mode, permits } = ask;
      return { do: "exchange", by, from: ask.grantId, ask: { ...to.ask, name, mode, permits } };
    }
    if (roll < 0.97) return { do: "inspect", by, name: ask.name };
    return { do: "list", by, limit: one([1, 2, 10]) };
  };
  return Array.from({ length: count }, next);
}

const io = { timeoutMs: 1000, signal: new AbortController().signal };

/** Does one call, and returns what was answered. */
export async function perform(
  call: Call,
  backends: readonly Backend[],
  clock: FakeClock,
): Promise<unknown> {
  if (call.do === "pass") {
    await clock.advance(call.ms);
    return null;
  }
  const backend = backends[call.by]!;
  switch (call.do) {
    case "attempt":
      return await backend.attempt(call.ask, io);
    case "renew":
      return await backend.renew(call.refs, io);
    case "release":
      return await backend.release(call.refs, io);
    case "revoke": {
      const { name, grantId } = call.ref;
      return await backend.revoke({ name, grantId, now: call.now }, io);
    }
    case "exchange":
      return await backend.exchange!(call.from, call.ask, io);
    case "inspect":
      return await backend.inspect(call.name, io);
    case "list":
      return await backend.list({ prefix: "", limit: call.limit }, io);
  }
}
