import { BackendError, RingfenceError } from "../../core/errors.ts";
import type { Presentation } from "../../core/guard.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { MysqlConnection, MysqlPool } from "./client.ts";
import { failure, isGone, isRepeatable, isTimeout } from "./errors.ts";

/** How often a transaction that met another one is tried again. */
const MOST_TRIES = 20;
const MAX_PAUSE_MS = 50;

/** Whose step it is. */
export interface Step {
  /** What ends it: its lease's deadline. `null` where no lease bounds it. */
  readonly mine: Presentation | null;
  /** How long the transaction may keep others out where no lease bounds it, in milliseconds. */
  readonly limitMs: number;
}

type Body<T> = (tx: MysqlConnection) => Promise<T>;

/** Runs `body` in one READ COMMITTED transaction, again from the start where the database makes transactions repeat. */
export async function repeated<T>(db: MysqlPool, step: Step, body: Body<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    step.mine?.checkDeadline();
    try {
      return await onConnection(db, step, body);
    } catch (error) {
      if (!isRepeatable(error) || tries === MOST_TRIES) throw error;
      await pause(Math.min(MAX_PAUSE_MS, 2 ** tries) * (0.5 + systemRandom.unit() / 2));
    }
  }
}

async function onConnection<T>(db: MysqlPool, step: Step, body: Body<T>): Promise<T> {
  const connection = await db.getConnection().catch((error: unknown) => {
    throw failure("begin", error);
  });
  // The server may end the session while no statement runs; without a listener that would end the process.
  const session = { broken: false };
  const note = (): void => {
    session.broken = true;
  };
  connection.on("error", note);
  try {
    return await transaction(connection, step, body, session);
  } finally {
    connection.off("error", note);
    // A session that could not be put back as it was must not go back into the pool.
    if (session.broken) connection.destroy();
    else connection.release();
  }
}

async function transaction<T>(
  connection: MysqlConnection,
  step: Step,
  body: Body<T>,
  session: { broken: boolean },
): Promise<T> {
  const note = (): void => {
    session.broken = true;
  };
  const say = async (operation: string, text: string): Promise<void> => {
    await connection.query(text).catch((error: unknown) => {
      note();
      throw told(failure(operation, error), step);
    });
  };
  await say("begin", bounds(step));
  await say("begin", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
  await say("begin", "START TRANSACTION");
  let value: T;
  try {
    value = await body(connection);
  } catch (error) {
    await connection.query("ROLLBACK").catch(note);
    if (!session.broken) await connection.query(UNBOUND).catch(note);
    throw session.broken || isTimeout(error) ? told(error, step) : error;
  }
  try {
    await connection.query("COMMIT");
  } catch (error) {
    note();
    throw isGone(error) ? failure("commit", error, "unknown") : error;
  }
  await connection.query(UNBOUND).catch(note);
  return value;
}

/**
 * Timeouts that end a session no later than its lease, in whole seconds: a holder that is paused inside its transaction
 * would otherwise keep its successor out for as long as it sleeps. `wait_timeout` is the one idle limit that MySQL and
 * MariaDB share; it is the session's, so what it was is kept and put back.
 */
function bounds({ mine, limitMs }: Step): string {
  const left = mine?.remainingMs() ?? Infinity;
  const seconds = Math.max(1, Math.ceil((left === Infinity ? limitMs : left) / 1000));
  return `SET @ringfence_wait = @@wait_timeout, @ringfence_lock = @@innodb_lock_wait_timeout,
  SESSION wait_timeout = LEAST(@@wait_timeout, ${seconds}),
  SESSION innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, ${seconds})`;
}

const UNBOUND =
  "SET SESSION wait_timeout = @ringfence_wait, SESSION innodb_lock_wait_timeout = @ringfence_lock";

/** Where a session was ended because its lease was, the lease's end is the news. */
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

/** The row of a resource never came to rest. */
export function unsettled(operation: string): BackendError {
  return new BackendError(
    "The guard's row kept changing between two statements: is something else writing to the guard's table?",
    { operation, outcome: "not-applied" },
  );
}
