import { BackendUnavailableError } from "../core/errors.ts";
import { systemClock } from "./system-clock.ts";
import { systemRandom } from "./system-random.ts";

/** How long a change that no lease bounds starts again while others come first. */
const LIMIT_MS = 5000;
const LONGEST_PAUSE_MS = 50;

/** What an attempt returns when another change came first and nothing was applied. */
export const CONFLICT: unique symbol = Symbol("conflict");

/**
 * Runs `attempt` again while it meets a conflict, after jittered pauses that double: for `limitMs`, or 5 s when that is
 * Infinity.
 * @throws BackendUnavailableError when the time is up, and what `attempt` throws
 */
export async function optimistically<T>(
  operation: string,
  limitMs: number,
  attempt: () => Promise<T | typeof CONFLICT>,
): Promise<T> {
  const end = systemClock.mono() + (limitMs === Infinity ? LIMIT_MS : limitMs);
  for (let tries = 0; ; tries += 1) {
    const result = await attempt();
    if (result !== CONFLICT) return result;
    if (systemClock.mono() >= end)
      throw new BackendUnavailableError(`Other changes came first throughout ${operation}`, {
        operation,
        outcome: "not-applied",
      });
    const pause = Math.min(LONGEST_PAUSE_MS, 2 ** tries) * systemRandom.unit();
    await new Promise<void>((done) => {
      systemClock.timer(pause, done, true);
    });
  }
}
