import type { LockRecord } from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";
import type { Grant } from "./grant.ts";
import type { Lock } from "./lock.ts";

/** What people are shown of a name. Reads only: what is over by `now` is left out, and stays until the next step. */
export function recordOf(name: string, lock: Lock | undefined, now: number): LockRecord {
  const occupants = lock === undefined ? [] : occupantsOf(lock);
  const holders = occupants.filter((grant) => grant.expiresAt > now);
  const waiters = lock === undefined ? [] : liveWaiters(lock, now);
  const semaphore =
    lock?.mode === "permits" || (holders.length === 0 && waiters[0]?.mode === "permits");
  return {
    name,
    mode: holders.length === 0 ? null : (lock?.mode ?? null),
    permits: semaphore ? (lock?.permits ?? 1) : 1,
    holders: holders.map((grant) => ({
      grantId: grant.grantId,
      holder: grant.holder,
      token: grant.first,
      lastToken: grant.lastToken,
      remainingMs: grant.expiresAt - now,
      sinceMs: grant.sinceMs,
    })),
    waiters: waiters.map(({ grantId, holder }) => ({ grantId, holder })),
    lockDelayMs: quietMs(occupants, now),
  };
}

/** Names that are held or waited for, in the order of their encoded bytes; the cursor is the last encoded name. */
export function listNames(
  locks: ReadonlyMap<string, Lock>,
  page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
  now: number,
): { readonly names: readonly string[]; readonly cursor?: string } {
  const found: { readonly name: string; readonly encoded: string }[] = [];
  for (const [name, lock] of locks) {
    if (!name.startsWith(page.prefix) || !isInUse(lock, now)) continue;
    const encoded = encodeName(name);
    if (page.cursor === undefined || encoded > page.cursor) found.push({ name, encoded });
  }
  found.sort((a, b) => (a.encoded < b.encoded ? -1 : 1));
  const names = found.slice(0, page.limit).map(({ name }) => name);
  const last = found[page.limit - 1];
  return found.length > page.limit && last !== undefined
    ? { names, cursor: last.encoded }
    : { names };
}

function occupantsOf(lock: Lock): Grant[] {
  return lock.sole === null ? [...(lock.crowd?.values() ?? [])] : [lock.sole];
}

function liveWaiters(
  lock: Lock,
  now: number,
): { readonly grantId: string; readonly holder: string; readonly mode: string }[] {
  return [...(lock.queue?.values() ?? [])].filter((waiter) => waiter.aliveUntil > now);
}

function isInUse(lock: Lock, now: number): boolean {
  return (
    occupantsOf(lock).some((grant) => grant.expiresAt > now) || liveWaiters(lock, now).length > 0
  );
}

/** How long the lock-delay of a vanished holder still runs. */
function quietMs(occupants: readonly Grant[], now: number): number {
  let until = now;
  for (const grant of occupants)
    if (grant.expiresAt <= now && grant.freeAt > until) until = grant.freeAt;
  return until - now;
}
