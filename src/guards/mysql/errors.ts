import {
  BackendConfigError,
  BackendError,
  BackendTimeoutError,
  BackendUnavailableError,
  RingfenceError,
} from "../../core/errors.ts";

const DUPLICATE = 1062;
const LOCK_WAIT = 1205;
const DEADLOCK = 1213;
/** MariaDB: the row changed after the transaction's snapshot. */
const CHANGED = 1020;
const MISSING_TABLE = 1146;
/** The session was ended: killed, idle for too long, the server going down. */
const SESSION_ENDED: readonly number[] = [1053, 1927, 4031, 1317, 1152, 1159, 1161];
const NOT_PERMITTED: readonly number[] = [1044, 1045, 1054, 1142, 1143];

/** The server's number of an error, `undefined` for what did not come from it. */
export function numberOf(error: unknown): number | undefined {
  const { errno, sqlState } = (error ?? {}) as {
    readonly errno?: unknown;
    readonly sqlState?: unknown;
  };
  return typeof errno === "number" && typeof sqlState === "string" ? errno : undefined;
}

export function isDuplicate(error: unknown): boolean {
  return numberOf(error) === DUPLICATE;
}

export function isMissingTable(error: unknown): boolean {
  return numberOf(error) === MISSING_TABLE;
}

/** Whether the whole transaction may be tried again, and is likely to pass then. */
export function isRepeatable(error: unknown): boolean {
  const number = numberOf(error) ?? numberOf((error as { readonly cause?: unknown } | null)?.cause);
  return number === DEADLOCK || number === CHANGED;
}

/** Whether a wait for a row took too long. */
export function isTimeout(error: unknown): boolean {
  return numberOf(error) === LOCK_WAIT;
}

/** Whether the session is over: what was open in it is rolled back. */
export function isGone(error: unknown): boolean {
  const number = numberOf(error);
  return number === undefined || SESSION_ENDED.includes(number);
}

/** The typed error of a statement of the guard's own; what makes transactions repeat stays what it is. */
export function failure(
  operation: string,
  cause: unknown,
  outcome: "not-applied" | "unknown" = "not-applied",
): unknown {
  if (cause instanceof RingfenceError || isRepeatable(cause)) return cause;
  const facts = { operation, outcome, cause };
  if (isTimeout(cause))
    return new BackendTimeoutError(
      `Another transaction held the guard's row for too long during ${operation}`,
      facts,
    );
  if (isGone(cause))
    return new BackendUnavailableError(`The connection failed during ${operation}`, facts);
  const number = numberOf(cause) ?? 0;
  if (number === MISSING_TABLE || NOT_PERMITTED.includes(number))
    return new BackendConfigError(
      `The guard's tables are missing, of another kind, or not permitted (${number}). Create them with the SQL of \`mysqlGuardSchema()\`.`,
      facts,
    );
  return new BackendError(`The database failed during ${operation}`, facts);
}
