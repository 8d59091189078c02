import { DriverError } from "../../core/driver.ts";
import { LinkError } from "../sql/link-error.ts";

/** The SQLSTATE of a server's complaint; `undefined` for anything else, such as `EPIPE`. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("severity" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" && /^[0-9A-Z]{5}$/.test(error.code)
    ? error.code
    : undefined;
}

/** Whether the session can be used after this complaint. */
export function endsSession(error: unknown): boolean {
  const severity = (error as { severity?: unknown }).severity;
  return severity === "FATAL" || severity === "PANIC";
}

type Verdict = readonly [kind: DriverError["kind"], outcome: DriverError["outcome"]];

/** By code, then by class. A statement that failed was rolled back, but for those during whose commit it may be said. */
const VERDICTS: Readonly<Record<string, Verdict>> = {
  // Asked again these may well succeed.
  "40001": ["busy", "not-applied"],
  "40P01": ["busy", "not-applied"],
  "40003": ["unavailable", "unknown"],
  "55P03": ["timeout", "not-applied"],
  "57014": ["timeout", "not-applied"],
  // The server ends or starts: a commit that waits for a standby is told so too, and stands.
  "57": ["unavailable", "unknown"],
  "57P03": ["unavailable", "not-applied"],
  "08": ["unavailable", "unknown"],
  "53": ["unavailable", "not-applied"],
  // A standby, or a server that was one just now.
  "25006": ["unavailable", "not-applied"],
  "25P03": ["unavailable", "not-applied"],
  "28": ["config", "not-applied"],
  "3D": ["config", "not-applied"],
  "3F": ["config", "not-applied"],
  "42": ["config", "not-applied"],
  "0A": ["config", "not-applied"],
  "22": ["config", "not-applied"],
  "2200H": ["config", "not-applied"],
  XX: ["unavailable", "unknown"],
  F0: ["unavailable", "unknown"],
  "58": ["unavailable", "unknown"],
};

/** A driver's error from whatever the client, the session or the server gave. */
export function asPostgresError(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const state = sqlState(error);
  if (state !== undefined) {
    const [kind, outcome] = VERDICTS[state] ??
      VERDICTS[state.slice(0, 2)] ?? ["unavailable", "not-applied"];
    const text = `PostgreSQL said: ${(error as Error).message} (${state})`;
    return new DriverError(kind, outcome, text, { cause: error });
  }
  if (error instanceof LinkError) {
    // A refused password or a missing database is found out while connecting, where nothing has been sent yet.
    const refused = error.sent ? undefined : sqlState(error.cause);
    const config = refused !== undefined && VERDICTS[refused.slice(0, 2)]?.[0] === "config";
    return new DriverError(
      config ? "config" : error.late ? "timeout" : "unavailable",
      error.sent ? "unknown" : "not-applied",
      error.message,
      { cause: error },
    );
  }
  return new DriverError("unavailable", "unknown", "the PostgreSQL client failed", {
    cause: error,
  });
}
