import { backoffMs } from "./backoff.ts";
import type { Ask } from "./driver.ts";
import type { Engine } from "./engine.ts";
import { PermitMismatchError } from "./errors.ts";
import { decodeHolder, type Holder } from "./holder.ts";
import { asAcquireError, asDriverError } from "./link.ts";
import type { LiveLease } from "./live-lease.ts";
import type { NameQueue } from "./local-queue.ts";
import type { Terms } from "./options.ts";
import { Tenure } from "./tenure.ts";

/** A store that is only busy with another writer is asked again for so long, even by one attempt. */
const BUSY_MS = 1000;

/**
 * One attempt without a place in any queue: a lease, or who is in the way. It never overtakes waiters, neither those of
 * this process nor the backend's.
 * @throws the signal's reason, PermitMismatchError, BackendUnavailableError, BackendConfigError
 */
export async function tryOnce(
  engine: Engine,
  queue: NameQueue,
  terms: Terms,
  signal: AbortSignal | undefined,
): Promise<LiveLease | { readonly holder: Holder | null }> {
  if (queue.hasWaiters) return { holder: queue.holder };
  const ids = engine.newIds();
  const ask: Ask = {
    name: queue.name,
    mode: terms.mode,
    permits: terms.permits,
    grantId: ids.grantId,
    holder: terms.holderText,
    ttlMs: terms.ttlMs,
    lockDelayMs: terms.lockDelayMs,
    tokens: 1,
    join: "no",
    ...(terms.above === undefined ? {} : { above: terms.above }),
  };
  const giveBack = async (late: boolean): Promise<unknown> =>
    engine.returns.give({
      ref: {
        name: ask.name,
        mode: ask.mode,
        grantId: ids.grantId,
        ttlMs: ask.ttlMs,
        lockDelayMs: 0,
      },
      late,
      timeoutMs: terms.requestTimeoutMs,
      budgetMs: 0,
      oursUntilMs: Infinity,
    });
  const startedAt = engine.clock.mono();
  engine.hold.begin();
  try {
    for (let tries = 0; ; tries += 1) {
      const sentAt = engine.holderClock.now();
      try {
        const answer = await engine.link.call(terms.requestTimeoutMs, async (backend, io) =>
          backend.attempt(ask, io),
        );
        if (answer.kind === "mismatch")
          throw new PermitMismatchError(ask.name, terms.permits, answer.permits);
        if (answer.kind !== "granted")
          return {
            holder:
              answer.kind === "busy" && answer.holder !== null ? decodeHolder(answer.holder) : null,
          };
        if (signal?.aborted === true) {
          await giveBack(false);
          throw signal.reason;
        }
        const { marginRatio } = engine.settings;
        const tenure = new Tenure(queue, terms, {
          ids,
          granted: answer,
          sentAt,
          late: tries > 0,
          marginRatio,
        });
        if (engine.holderClock.now() < tenure.deadline)
          return queue.begin(tenure, answer.previousToken, startedAt);
        await giveBack(false);
        return { holder: null };
      } catch (error) {
        if (signal?.aborted === true || error instanceof PermitMismatchError) throw error;
        const { kind, outcome } = asDriverError(error);
        if (kind === "busy" && engine.clock.mono() - startedAt < BUSY_MS) {
          await new Promise<void>((resolve) => {
            engine.clock.timer(backoffMs(engine.random, tries, 4, 50), resolve, true);
          });
          continue;
        }
        if (outcome === "unknown") await giveBack(true);
        throw asAcquireError(error);
      }
    }
  } finally {
    engine.hold.end();
    if (queue.empty) engine.forget(queue.name);
  }
}

/** The work's result, or at once the signal's reason; the work goes on to its end and cleans up after itself. */
export async function abortable<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  if (signal === undefined) return await work;
  return await new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", onAbort);
    });
  });
}
