import { RingfenceError } from "../../core/errors.ts";
import type { Presentation } from "../../core/guard.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { Answer, Database, Session } from "./client.ts";
import { failure, isGone, isRepeatable } from "./errors.ts";

/** How often a transaction that met another one is tried again. */
const MOST_TRIES = 20;
const MAX_PAUSE_MS = 50;

/** The session's own timeouts, in milliseconds; 0: none. They are only ever lowered. */
export interface Timeouts {
  readonly lock: number;
  readonly statement: number;
  readonly idle: number;
}

/** Whose step it is. */
export interface Step {
  readonly operation: string;
  /** What ends it: its lease's deadline. `null` where no lease bounds it. */
  readonly mine: Presentation | null;
  /** How long the transaction may keep others out where no lease bounds it, in milliseconds. */
  readonly limitMs: number;
  readonly timeouts: Timeouts;
  /** A statement without parameters that may go along with the one that begins. */
  readonly first?: string | undefined;
}

/** What is left for a step: the validity of its lease, or the limit for credentials from elsewhere. */
export function leftMs(mine: Presentation | null, limitMs: number): number {
  const left = mine?.remainingMs() ?? Infinity;
  return Math.max(1, Math.floor(left === Infinity ? limitMs : left));
}

/** Runs `body` in one transaction, again from the start where PostgreSQL makes transactions repeat. */
export async function repeated<T>(
  db: Database,
  step: Step,
  body: (session: Session, tx: unknown, first?: Promise<Answer>) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    step.mine?.checkDeadline();
    try {
      return await db.transaction({
        settings: settingsFor(step),
        first: step.first,
        body,
        interrupted: (error) => told(error, step),
        failed: (what, cause) => {
          // A deferred constraint of the user's speaks at the commit; it is his error, not ours.
          if (what === "commit" && !isGone(cause)) return cause;
          const error = failure(what, cause, what === "commit" ? "unknown" : "not-applied");
          return what === "begin" ? told(error, step) : error;
        },
      });
    } catch (error) {
      if (!isRepeatable(error) || tries === MOST_TRIES) throw error;
      await pause(Math.min(MAX_PAUSE_MS, 2 ** tries) * (0.5 + systemRandom.unit() / 2));
    }
  }
}

/**
 * Timeouts that end a transaction no later than its lease: a holder that is paused inside it would otherwise keep its
 * successor out for as long as it sleeps, since its claim has locked the guard's row.
 */
function settingsFor({ mine, limitMs, timeouts }: Step): string {
  const ms = leftMs(mine, limitMs);
  const set = (name: string, own: number): string =>
    `SET LOCAL ${name} = ${own > 0 && own < ms ? own : ms}`;
  return [
    set("lock_timeout", timeouts.lock),
    set("statement_timeout", timeouts.statement),
    set("idle_in_transaction_session_timeout", timeouts.idle),
  ].join("; ");
}

/** Where a transaction was ended because its lease was, the lease's end is the news. */
function told(error: unknown, { mine }: Step): unknown {
  try {
    mine?.checkDeadline();
  } catch (lost) {
    if (lost instanceof RingfenceError) lost.suppressed = error;
    return lost;
  }
  return error;
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    systemClock.timer(ms, resolve, true);
  });
}
