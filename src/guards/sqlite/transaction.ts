import {
  BackendError,
  BackendUnavailableError,
  InvalidArgumentError,
  RingfenceError,
} from "../../core/errors.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import { isBusy, isNested, type SqliteConnection, transactionOpen } from "./client.ts";

/** How long a step that is bound by no lease goes on trying while another connection writes. */
const BUSY_LIMIT_MS = 5000;
const MAX_PAUSE_MS = 25;

/** Whose step it is: what ends it early, and how long it may try. */
export interface Step {
  readonly operation: string;
  /** @throws what ends the step for good */
  check(): void;
  /** Milliseconds; Infinity where no lease bounds it. */
  remainingMs(): number;
}

/**
 * Runs `body` in one BEGIN IMMEDIATE transaction, again from the start while another connection is in the way: at most
 * for the validity that the lease has left now, 5 s without one. Nothing awaits between BEGIN and COMMIT, since other
 * code on the same connection would run inside our transaction.
 * @throws BackendUnavailableError when the time is up, InvalidArgumentError inside an open transaction, and what `body` throws
 */
export async function immediate<T>(db: SqliteConnection, step: Step, body: () => T): Promise<T> {
  const limit = step.remainingMs();
  const end = systemClock.mono() + (limit === Infinity ? BUSY_LIMIT_MS : limit);
  for (let tries = 0; ; tries += 1) {
    step.check();
    const outcome = attempt(db, step, body);
    if ("value" in outcome) return outcome.value;
    const left = end - systemClock.mono();
    if (left <= 0) {
      // Where the lease ended meanwhile, that is the news.
      step.check();
      throw busy(step.operation, outcome.busy);
    }
    const pause = Math.min(MAX_PAUSE_MS, 2 ** tries) * (0.5 + systemRandom.unit() / 2);
    await sleep(Math.min(left, pause));
  }
}

/** The error of a step that another connection kept from running. Nothing was applied. */
export function busy(operation: string, cause: unknown): BackendUnavailableError {
  return new BackendUnavailableError(
    `The database stayed locked by another connection during ${operation}`,
    { operation, outcome: "not-applied", cause },
  );
}

type Attempt<T> = { readonly value: T } | { readonly busy: unknown };

function attempt<T>(db: SqliteConnection, step: Step, body: () => T): Attempt<T> {
  try {
    db.exec("BEGIN IMMEDIATE");
  } catch (error) {
    if (isBusy(error)) return { busy: error };
    if (isNested(error)) throw nested(step.operation, error);
    throw failed(step.operation, "not-applied", error);
  }
  let value: T;
  try {
    // The client's own busy timeout may have blocked in BEGIN for long.
    step.check();
    value = body();
    if (transactionOpen(db) === false)
      throw new InvalidArgumentError(
        "Expected the body to leave the transaction open: the guard commits it.",
      );
  } catch (error) {
    rollback(db, error);
    throw error;
  }
  try {
    db.exec("COMMIT");
  } catch (error) {
    // Readers of a rollback journal can keep a commit waiting. Waiting here would let others into our transaction.
    rollback(db, error);
    if (isBusy(error)) return { busy: error };
    throw failed("commit", "unknown", error);
  }
  return { value };
}

/** Rolls back; a failure of that is a second one and hides behind the first. */
function rollback(db: SqliteConnection, first: unknown): void {
  // Some errors have ended the transaction already.
  if (transactionOpen(db) === false) return;
  try {
    db.exec("ROLLBACK");
  } catch (second) {
    if (first instanceof RingfenceError) first.suppressed = second;
  }
}

/** The error of a step that SQLite failed for another reason. */
export function failed(
  operation: string,
  outcome: "not-applied" | "unknown",
  cause: unknown,
): BackendError {
  return new BackendError(`SQLite failed during ${operation}`, { operation, outcome, cause });
}

function nested(operation: string, cause?: unknown): InvalidArgumentError {
  return new InvalidArgumentError(
    `Expected a connection without an open transaction for ${operation}: it opens its own. Inside yours, use \`verify\` after a claim that was made before.`,
    cause,
  );
}

async function sleep(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    systemClock.timer(ms, resolve, true);
  });
}
