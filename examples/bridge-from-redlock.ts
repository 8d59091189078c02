/**
 * A fleet that runs an older lock and Ringfence at once: for one release every process takes both, the old one first.
 * Processes of the release before exclude these by the old lock, those of the release after by ours.
 */
import type { LockManager } from "../src/index.ts";

/** What the bridge needs of the old lock: `using` of `redlock`, or a few lines around another one. */
export interface OldLock {
  using<T>(keys: string[], ttlMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

/**
 * Runs `work` while both locks are held. Everybody takes them in this order, so nobody waits for somebody who waits for
 * them. `signal` aborts when either is lost.
 */
export async function underBoth<T>(
  old: OldLock,
  locks: Pick<LockManager, "request">,
  name: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return await old.using([name], 30_000, async (oldSignal) =>
    locks.request(name, { signal: oldSignal }, async (lease) =>
      work(AbortSignal.any([oldSignal, lease.signal])),
    ),
  );
}
