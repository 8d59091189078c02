import type { GrantRef, Release, Renewal } from "../../core/driver.ts";
import { compareNames } from "../../core/lock-name.ts";
import { LockStep } from "./lock-step.ts";
import type { Step, Store } from "./step.ts";

/** A revoked grant is told so for at least this long, and a late ask of it refused. */
const REVOKED_KEPT_MS = 60_000;

const RELEASED = { kind: "released" } as const;

/** Renews one exclusive lease as one statement; `false` when it is none, or not held. */
export function renewSole(store: Store, ref: GrantRef): boolean {
  const { clock, identity } = store;
  const [now, wall] = [clock.mono(), clock.wall()];
  const changed = store.client.run(store.sql.renewSole, {
    key: store.key(ref.name),
    grant: ref.grantId,
    ttl: ref.ttlMs,
    delay: ref.lockDelayMs,
    expires: now + ref.ttlMs,
    wallEnd: wall + ref.ttlMs,
    now,
    boot: identity.boot,
    clock: identity.clock,
  });
  return changed > 0;
}

/** Releases a lease that nobody waits for as one statement; `false` when it is not held or somebody waits. */
export function releaseSole(store: Store, ref: GrantRef): boolean {
  if (ref.mode !== "exclusive") return false;
  if (ref.refuseLateMs !== undefined || ref.raiseTo !== undefined) return false;
  const changed = store.client.run(store.sql.releaseSole, {
    key: store.key(ref.name),
    grant: ref.grantId,
    now: store.clock.mono(),
    boot: store.identity.boot,
    clock: store.identity.clock,
  });
  return changed > 0;
}

/** Renews leases and queued entries inside a transaction; answers in the order given. */
export function renewAll(step: Step, refs: readonly GrantRef[]): Renewal[] {
  return inNameOrder(refs, (ref) => {
    if (ref.mode === "exclusive" && renewSole(step.store, ref)) return renewed(ref);
    const { now, wall, sql, store } = step;
    const terms = {
      key: store.key(ref.name),
      grant: ref.grantId,
      ttl: ref.ttlMs,
      delay: ref.lockDelayMs,
      expires: now + ref.ttlMs,
      wallEnd: wall + ref.ttlMs,
      now,
    };
    if (ref.mode !== "exclusive" && step.run(sql.renewShare, terms) > 0) return renewed(ref);
    const lock = new LockStep(step, ref.name);
    const kept = lock.renewWaiter(ref.grantId);
    lock.makeOffers();
    lock.save();
    if (kept) return renewed(ref);
    return { kind: "gone", reason: step.whyGone(ref.grantId, lock.isTakenFrom(ref.grantId)) };
  });
}

function renewed(ref: GrantRef): Renewal {
  return { kind: "renewed", ttlMs: ref.ttlMs };
}

/** Gives back leases and queued entries inside a transaction; answers in the order given. */
export function releaseAll(step: Step, refs: readonly GrantRef[]): Release[] {
  return inNameOrder(refs, (ref) => {
    const lock = new LockStep(step, ref.name);
    const held = lock.release(ref.grantId, ref.raiseTo);
    const queued = lock.leave(ref.grantId);
    lock.makeOffers();
    lock.save();
    const answer: Release =
      held || queued
        ? RELEASED
        : { kind: "gone", reason: step.whyGone(ref.grantId, lock.isTakenFrom(ref.grantId)) };
    if (ref.refuseLateMs !== undefined && ref.refuseLateMs > 0)
      step.bury(ref.grantId, "released", ref.refuseLateMs);
    return answer;
  });
}

/** Frees one grant inside a transaction. */
export function revoke(
  step: Step,
  order: { readonly name: string; readonly grantId: string; readonly now: boolean },
): Release {
  const lock = new LockStep(step, order.name);
  const reason = step.whyGone(order.grantId, lock.isTakenFrom(order.grantId));
  const ttlMs = lock.revoke(order.grantId, order.now);
  if (ttlMs !== null) step.bury(order.grantId, "revoked", Math.max(ttlMs, REVOKED_KEPT_MS));
  lock.makeOffers();
  lock.save();
  return ttlMs === null ? { kind: "gone", reason } : RELEASED;
}

function inNameOrder<T>(refs: readonly GrantRef[], each: (ref: GrantRef) => T): T[] {
  const order = refs.map((ref, index) => ({ ref, index }));
  if (refs.length > 1) order.sort((a, b) => compareNames(a.ref.name, b.ref.name));
  const answers = new Array<T>(refs.length);
  for (const { ref, index } of order) answers[index] = each(ref);
  return answers;
}
