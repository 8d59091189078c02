import {
  BackendConfigError,
  BackendError,
  BackendUnavailableError,
  IdempotencyInProgressError,
  RingfenceError,
} from "../../core/errors.ts";

interface Coded {
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly errcode?: unknown;
  readonly sqlState?: unknown;
  readonly severity?: unknown;
}

const coded = (error: unknown): Coded => error ?? {};

/** PostgreSQL, MySQL and SQLite: no such table. SQLite has no code of its own for that, so any plain error counts. */
function isMissingTable(error: unknown): boolean {
  const { code, errno, errcode } = coded(error);
  return code === "42P01" || errno === 1146 || code === "SQLITE_ERROR" || errcode === 1;
}

/** Whether the other call with this key was met and did not end in time. */
function isWait(error: unknown): boolean {
  const { code, errno } = coded(error);
  return code === "55P03" || errno === 1205 || errno === 3572;
}

/** Serialization failures and deadlocks stay what they are: whoever repeats transactions looks for their code. */
function isRepeatable(error: unknown): boolean {
  const { code, errno } = coded(error);
  return code === "40001" || code === "40P01" || errno === 1213 || errno === 1020;
}

/** The typed error of a statement about a key. */
export function failure(error: unknown, key: string, schema: string): unknown {
  if (error instanceof RingfenceError || isRepeatable(error)) return error;
  if (isWait(error)) return new IdempotencyInProgressError(key);
  const facts = { operation: "idempotency", outcome: "not-applied", cause: error } as const;
  if (isMissingTable(error))
    return new BackendConfigError(
      `The table of idempotency keys is missing. Create it with \`createIdempotencyTable\`, or with:\n${schema}`,
      facts,
    );
  const { severity, sqlState, errcode, code } = coded(error);
  const fromServer =
    severity !== undefined ||
    sqlState !== undefined ||
    errcode !== undefined ||
    String(code).startsWith("SQLITE_");
  if (fromServer)
    return new BackendError("The database refused a statement about an idempotency key", facts);
  return new BackendUnavailableError("The connection failed at an idempotency key", {
    ...facts,
    outcome: "unknown",
  });
}
