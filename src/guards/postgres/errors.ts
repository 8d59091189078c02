import {
  BackendConfigError,
  BackendError,
  BackendTimeoutError,
  BackendUnavailableError,
  InvalidArgumentError,
  RingfenceError,
} from "../../core/errors.ts";

/** The server's five-character code, `undefined` for what did not come from it: a closed socket, a refused connection. */
function sqlState(error: unknown): string | undefined {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && "severity" in (error as object)
    ? code
    : undefined;
}

const SERIALIZATION_FAILURE = "40001";
const DEADLOCK = "40P01";
const UNDEFINED_TABLE = "42P01";

/** Whether the whole transaction may be tried again, and is likely to pass then. */
export function isRepeatable(error: unknown): boolean {
  const state = sqlState(error) ?? sqlState((error as { readonly cause?: unknown } | null)?.cause);
  return state === SERIALIZATION_FAILURE || state === DEADLOCK;
}

export function isMissingTable(error: unknown): boolean {
  return sqlState(error) === UNDEFINED_TABLE;
}

/** Whether the session is over: what was open in it is rolled back. */
export function isGone(error: unknown): boolean {
  const state = sqlState(error);
  // 57P01 to 57P05 end a session, 25P03 is the idle timeout; an error without a code of the server came from the socket.
  return (
    state === undefined || state.startsWith("57P") || state === "25P03" || state.startsWith("08")
  );
}

/** Whether a timeout of the server, ours or the user's, ended a statement. */
export function isTimeout(error: unknown): boolean {
  return ["55P03", "57014", "25P03"].includes(sqlState(error) ?? "");
}

const WHY: Readonly<Record<string, string>> = {
  "55P03": "another transaction held the guard's row",
  "57014": "another transaction held the guard's row, or the server was slow",
  "25P03": "the transaction stood still for too long",
};

/**
 * The typed error of a statement of the guard's own. Serialization failures stay what they are: whoever repeats
 * transactions looks for their code.
 */
export function failure(
  operation: string,
  cause: unknown,
  outcome: "not-applied" | "unknown" = "not-applied",
): unknown {
  if (cause instanceof RingfenceError || isRepeatable(cause)) return cause;
  const facts = { operation, outcome, cause };
  const state = sqlState(cause) ?? "";
  if (state in WHY)
    return new BackendTimeoutError(
      `PostgreSQL gave up during ${operation}: ${WHY[state] ?? ""}`,
      facts,
    );
  if (isGone(cause))
    return new BackendUnavailableError(
      `The connection to PostgreSQL failed during ${operation}`,
      facts,
    );
  // A standby refuses writes, and even a transaction that may write.
  if (state === "25006" || state === "0A000")
    return new BackendConfigError("This server is a replica: claims go to the primary", facts);
  if (isMissingTable(cause) || state === "42501" || state === "42703")
    return new BackendConfigError(
      `The guard's tables are missing, of another kind, or not permitted (${state}). Create them with the SQL of \`postgresGuardSchema()\`.`,
      facts,
    );
  return new BackendError(`PostgreSQL failed during ${operation}`, facts);
}

/** The body ended the transaction that the guard opened. */
export function ended(): InvalidArgumentError {
  return new InvalidArgumentError(
    "Expected the body to leave the transaction open: the guard commits it.",
  );
}

/** A statement of the body failed, the body went on, and the server rolled back instead of committing. */
export function rolledBack(): BackendError {
  return new BackendError(
    "PostgreSQL rolled back instead of committing: a statement of the body had failed before",
    { operation: "commit", outcome: "not-applied" },
  );
}

/** The session ended while the body ran; nothing more of that body may reach the server. */
export function over(cause: unknown): BackendUnavailableError {
  return new BackendUnavailableError("The session of this transaction is over", {
    operation: "run",
    outcome: "not-applied",
    cause,
  });
}
