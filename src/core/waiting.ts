import { backoffMs } from "./backoff.ts";
import { type Answer, type Ask, DriverError } from "./driver.ts";
import type { Engine } from "./engine.ts";
import { ManagerClosedError, PermitMismatchError } from "./errors.ts";
import { decodeHolder, type Holder } from "./holder.ts";
import { asAcquireError, asDriverError, noAnswer } from "./link.ts";
import type { LiveLease } from "./live-lease.ts";
import type { NameQueue } from "./local-queue.ts";
import { Tenure } from "./tenure.ts";
import type { Terms } from "./terms.ts";
import { BUSY_MS } from "./ticket.ts";

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
  const timeoutMs = terms.requestTimeoutMs;
  const startedAt = engine.clock.mono();
  engine.hold.begin();
  // An ask may still be on its way.
  let late = false;
  try {
    for (let tries = 0; ; tries += 1) {
      const sentAt = engine.holderClock.now();
      const answer = await attempt(engine, ask, timeoutMs);
      if (!(answer instanceof DriverError)) {
        if (answer.kind !== "granted" && late) void giveBack(engine, ask, { timeoutMs, late });
        switch (answer.kind) {
          case "mismatch":
            throw new PermitMismatchError(ask.name, terms.permits, answer.permits);
          case "busy":
            return { holder: answer.holder === null ? null : decodeHolder(answer.holder) };
          case "vanished":
            return { holder: null };
          case "granted":
            break;
          default:
            throw asAcquireError(noAnswer(answer));
        }
        const tenure = new Tenure(queue, terms, {
          ids,
          granted: answer,
          sentAt,
          late,
        });
        const alive = engine.holderClock.now() < tenure.deadline;
        if (alive && signal?.aborted !== true && !engine.closing)
          return queue.begin(tenure, answer.previousToken, startedAt);
        await giveBack(engine, ask, { timeoutMs, late });
        signal?.throwIfAborted();
        if (engine.closing) throw new ManagerClosedError();
        return { holder: null };
      }
      late ||= answer.outcome === "unknown";
      if (answer.kind !== "busy" || engine.clock.mono() - startedAt >= BUSY_MS) {
        // Not awaited: a link that went silent would make its caller wait for it twice.
        if (late) void giveBack(engine, ask, { timeoutMs, late });
        throw asAcquireError(answer);
      }
      await pause(engine, backoffMs(engine.random, tries, 4, 50));
    }
  } finally {
    engine.hold.end();
    if (queue.empty) engine.forget(queue.name);
  }
}

async function attempt(engine: Engine, ask: Ask, timeoutMs: number): Promise<Answer | DriverError> {
  try {
    return await engine.link.call(timeoutMs, async (backend, io) => backend.attempt(ask, io));
  } catch (error) {
    return asDriverError(error);
  }
}

/** One try, and on in the background. */
async function giveBack(
  engine: Engine,
  ask: Ask,
  { timeoutMs, late }: { readonly timeoutMs: number; readonly late: boolean },
): Promise<void> {
  const { name, mode, grantId, ttlMs } = ask;
  const ref = { name, mode, grantId, ttlMs, lockDelayMs: 0 };
  await engine.returns.give({
    ref,
    late,
    timeoutMs,
    budgetMs: 0,
    livesMs: ttlMs,
    oursUntilMs: Infinity,
  });
}

async function pause(engine: Engine, ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    engine.clock.timer(ms, resolve, true);
  });
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
