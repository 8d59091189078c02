import type { Answer, Ask, Busy, GoneReason, Granted } from "../../core/driver.ts";
import { big, END_OF_QUEUE, granted, LockStep } from "./lock-step.ts";
import { type Step, type Store, wallMicros } from "./step.ts";
import type { WaiterRow } from "./tables.ts";

/** Silence that makes a waiter dead: short near the head, where it would hold up the others. */
const KEEP_NEAR_MS = 3000;
const KEEP_FAR_MS = 60_000;
const NEAR = 3;
/** The longest queue of one name. */
const MAX_WAITERS = 10_000;

const VANISHED = { kind: "vanished" } as const;

/**
 * The ask that nobody contends, as one statement: the name is new or idle, so there are no holders, waiters or
 * lock-delays to look at. `null` when it is not so, and for every other question: then `attempt` decides.
 */
export function grantIdle(store: Store, ask: Ask): Granted | null {
  if (ask.mode !== "exclusive" || ask.join === "kept") return null;
  const { clock, identity } = store;
  const [now, wall] = [clock.mono(), clock.wall()];
  let least = wallMicros(wall);
  if (ask.above !== undefined && ask.above >= least) least = ask.above + 1n;
  const row = store.client.get(store.sql.grantIdle, {
    key: store.key(ask.name),
    grant: ask.grantId,
    holder: ask.holder,
    ttl: ask.ttlMs,
    delay: ask.lockDelayMs,
    expires: now + ask.ttlMs,
    wallEnd: wall + ask.ttlMs,
    wall,
    least,
    more: BigInt(ask.tokens - 1),
    now,
    boot: identity.boot,
    clock: identity.clock,
  });
  if (row === undefined) return null;
  const first = BigInt(row.first);
  return granted(ask, { first, count: ask.tokens }, row.abandoned, big(row.previous));
}

/** Where an ask stands that did not get in. */
interface Standing {
  readonly kind: "waits";
  readonly queued: boolean;
  readonly ahead: number;
  readonly keepMs: number;
}

/** Any ask, inside a transaction. */
export function attempt(step: Step, ask: Ask): Answer {
  if (step.tomb(ask.grantId) !== null) return VANISHED;
  const lock = new LockStep(step, ask.name);
  const outcome = lock.restart(ask) ?? decide(lock, step, ask);
  lock.makeOffers();
  // After the offers: how long this one waits depends on the one that was made just now.
  const answer = outcome.kind === "waits" ? busy(lock, ask, outcome) : outcome;
  lock.save();
  return answer;
}

function decide(lock: LockStep, step: Step, ask: Ask): Exclude<Answer, Busy> | Standing {
  const waiter = lock.waiter(ask.grantId);
  if (ask.join === "kept" && waiter === undefined) return VANISHED;
  if (ask.mode === "permits") {
    const stored = lock.disagrees(ask.permits);
    if (stored !== null) {
      lock.leave(ask.grantId);
      return { kind: "mismatch", permits: stored };
    }
  }
  lock.missOffers(ask.grantId);
  const place = lock.ahead(waiter?.seq ?? END_OF_QUEUE);
  if (lock.hasRoom(ask.mode, place)) return lock.grant(ask, waiter);
  const keepMs = place.ahead < NEAR ? KEEP_NEAR_MS : KEEP_FAR_MS;
  const queued = queue(lock, step, ask, waiter, keepMs);
  return { kind: "waits", queued, ahead: place.ahead, keepMs };
}

function busy(lock: LockStep, ask: Ask, { queued, ahead, keepMs }: Standing): Busy {
  const keepEntryMs = queued ? keepMs : Number.POSITIVE_INFINITY;
  return { kind: "busy", queued, ...lock.obstacle(ask, ahead), keepEntryMs };
}

/** Keeps, makes or drops the ask's entry; answers whether it has one. */
function queue(
  lock: LockStep,
  step: Step,
  ask: Ask,
  waiter: WaiterRow | undefined,
  keepMs: number,
): boolean {
  if (ask.join === "no") {
    lock.leave(ask.grantId);
    return false;
  }
  if (waiter !== undefined) {
    lock.heard(waiter, keepMs);
    return true;
  }
  if (lock.queueLength() >= MAX_WAITERS) {
    lock.forgetDead(step.now);
    if (lock.queueLength() >= MAX_WAITERS) return false;
  }
  lock.join(ask, keepMs);
  return true;
}

/** Gives the lease of `from` to the ask, inside a transaction. */
export function exchange(
  step: Step,
  from: string,
  ask: Ask,
): Granted | { readonly kind: "gone"; readonly reason: GoneReason } {
  const lock = new LockStep(step, ask.name);
  const again = lock.restart(ask);
  const answer = again ?? lock.exchange(from, ask);
  if (answer === undefined) {
    lock.makeOffers();
    lock.save();
    return { kind: "gone", reason: step.whyGone(from, lock.isTakenFrom(from)) };
  }
  if (again === undefined) step.bury(from, "exchanged", Math.max(ask.ttlMs, KEEP_FAR_MS));
  lock.makeOffers();
  lock.save();
  return answer;
}
