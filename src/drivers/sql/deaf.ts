/** Waiters of a process that cannot be told of an offer, or not yet. */
import type { Clock } from "../../core/clock.ts";
import type { Busy } from "../../core/driver.ts";

/** The k-th waiter asks after k times this long, in milliseconds, and never later than the last. */
const POLL_MS = 150;
const POLL_MAX_MS = 20_000;
/** How long the first waiter of a process is held up while the process begins to listen, in milliseconds. */
const LISTEN_MS = 500;

/** The answer to a waiter that hears no wake-up: it asks soon, the first ones most often. */
export function polling(answer: Busy & { readonly ahead?: number }): Busy {
  const soon = Math.min(POLL_MAX_MS, POLL_MS * ((answer.ahead ?? 0) + 1));
  return { ...answer, askAgainMs: Math.min(answer.askAgainMs, soon) };
}

/**
 * Resolves once the first try to listen has ended, or a short time is over: half of what is left until `dueAt` at most,
 * since the request still has to be made.
 */
export async function listensSoon(
  begun: Promise<void>,
  clock: Clock,
  dueAt: number,
): Promise<void> {
  const longest = Math.max(0, Math.min(LISTEN_MS, (dueAt - clock.mono()) / 2));
  await new Promise<void>((resolve) => {
    const timer = clock.timer(longest, resolve);
    void begun.then(() => {
      timer.cancel();
      resolve();
    });
  });
}
