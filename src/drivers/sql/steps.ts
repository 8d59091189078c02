/** What the steps on one name decide, whatever database keeps it. */
import type {
  Answer,
  Ask,
  Busy,
  GoneReason,
  Granted,
  GrantRef,
  Release,
} from "../../core/driver.ts";
import type { LockStep } from "./lock-step.ts";

/** Silence that makes a waiter dead: short near the head, where it would hold up the others. */
export const KEEP_NEAR_MS = 3000;
export const KEEP_FAR_MS = 60_000;
const NEAR = 3;
/** The longest queue of one name. */
const MAX_WAITERS = 10_000;
/** A revoked grant is told so for at least this long, and a late ask of it refused. */
const REVOKED_KEPT_MS = 60_000;

const VANISHED = { kind: "vanished" } as const;
const RELEASED = { kind: "released" } as const;

/** A `Busy` answer with how many stand before the asker. */
export type Placed = Busy & { readonly ahead: number };
/** The answer to an ask as far as it is known before the step is written: a grant's numbers come with the writing. */
export type Decided = Exclude<Answer, Granted | Busy> | Granted | Placed | "granted";

/** For how long a waiter lives that nothing is heard of, by its place. */
export function keepOf(ahead: number): number {
  return ahead < NEAR ? KEEP_NEAR_MS : KEEP_FAR_MS;
}

/** Any ask. `channel`: where its process is told; "" where it cannot be. */
export function decide(lock: LockStep, ask: Ask, channel: string): Decided {
  if (lock.refused) return VANISHED;
  const outcome = lock.restart(ask) ?? place(lock, ask, channel);
  lock.makeOffers(ask.grantId);
  if (outcome !== "waits") return outcome;
  const { queued, ahead } = lock;
  const keepEntryMs = queued ? keepOf(ahead) : Number.POSITIVE_INFINITY;
  return { kind: "busy", queued, ...lock.obstacle(ask), keepEntryMs, ahead };
}

function place(
  lock: LockStep,
  ask: Ask,
  channel: string,
): Exclude<Answer, Granted | Busy> | "granted" | "waits" {
  if (ask.join === "kept" && !lock.queued) return VANISHED;
  if (ask.mode === "permits") {
    const stored = lock.disagrees(ask.permits);
    if (stored !== null) {
      lock.leave();
      return { kind: "mismatch", permits: stored };
    }
  }
  if (lock.hasRoom(ask.mode)) {
    lock.grant(ask);
    return "granted";
  }
  const keepMs = keepOf(lock.ahead);
  if (ask.join === "no") lock.leave();
  else if (lock.queued) lock.heard(keepMs);
  else {
    if (lock.entries >= MAX_WAITERS) lock.forgetDead();
    else lock.join(ask, channel, keepMs);
  }
  return "waits";
}

/** Gives the lease of `from`, which the step is about, to the ask; false when it does not stand. */
export function exchangeFrom(lock: LockStep, from: string, ask: Ask): boolean {
  const exchanged = lock.exchange(ask);
  if (exchanged) lock.bury(from, "exchanged", Math.max(ask.ttlMs, KEEP_FAR_MS));
  lock.makeOffers();
  return exchanged;
}

/** Gives back a lease or an entry. */
export function releaseIn(lock: LockStep, ref: GrantRef): Release {
  const reason = lock.whyGone;
  const held = lock.release(ref.raiseTo);
  const queued = lock.leave();
  const refuse = ref.refuseLateMs ?? 0;
  if (refuse > 0) lock.bury(ref.grantId, "released", refuse);
  lock.makeOffers();
  return held || queued ? RELEASED : { kind: "gone", reason };
}

/** Frees one grant. */
export function revokeIn(lock: LockStep, grantId: string, now: boolean): Release {
  const reason = lock.whyGone;
  const ttlMs = lock.revoke(now);
  if (ttlMs !== null) lock.bury(grantId, "revoked", Math.max(ttlMs, REVOKED_KEPT_MS));
  lock.makeOffers();
  return ttlMs === null ? { kind: "gone", reason } : RELEASED;
}

/** Why a grant is not there any more, by what its tombstone says and whether another has the name. */
export function reasonOf(tomb: string | null, taken: boolean): GoneReason {
  if (tomb === "revoked") return "revoked";
  return taken || tomb === "exchanged" ? "taken" : "expired";
}
