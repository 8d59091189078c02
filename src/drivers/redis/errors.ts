import { DriverError } from "../../core/driver.ts";

/** What became of a command that got no reply. `sent` false: it never left this process. */
export class LinkError extends Error {
  override readonly name: string = "LinkError";
  readonly sent: boolean;
  readonly late: boolean;
  constructor(
    message: string,
    facts: { readonly sent: boolean; readonly late?: boolean; readonly cause?: unknown },
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.sent = facts.sent;
    this.late = facts.late === true;
  }
}

type Verdict = readonly [kind: "unavailable" | "config", outcome: "not-applied" | "unknown"];

/**
 * What the first word of an error reply says. A script is refused before its first write, so what comes from the
 * server's state has not been applied; where rights can end in the middle of a script, nobody knows.
 */
const VERDICTS: Readonly<Record<string, Verdict>> = {
  READONLY: ["unavailable", "not-applied"],
  MISCONF: ["unavailable", "not-applied"],
  OOM: ["unavailable", "not-applied"],
  LOADING: ["unavailable", "not-applied"],
  BUSY: ["unavailable", "not-applied"],
  MASTERDOWN: ["unavailable", "not-applied"],
  NOREPLICAS: ["unavailable", "not-applied"],
  CLUSTERDOWN: ["unavailable", "not-applied"],
  TRYAGAIN: ["unavailable", "not-applied"],
  MOVED: ["unavailable", "not-applied"],
  ASK: ["unavailable", "not-applied"],
  CROSSSLOT: ["config", "not-applied"],
  NOAUTH: ["config", "not-applied"],
  WRONGPASS: ["config", "not-applied"],
  NOPERM: ["config", "unknown"],
  WRONGTYPE: ["config", "unknown"],
  ERR: ["config", "unknown"],
};

/** The code of a Redis error reply, its first word; `undefined` for anything that is no error reply. */
export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error instanceof LinkError) return undefined;
  return /^([A-Z][A-Z0-9]+)(?: |$)/.exec(error.message)?.[1];
}

/** One name of several was enough for the server to refuse a script before it ran: each must be asked by itself. */
export function refusedWhole(error: unknown): boolean {
  const code = codeOf(error);
  return code === "NOPERM" || code === "CROSSSLOT";
}

/** An error reply without the command that a library puts on it: whole scripts, and who holds a lock, in somebody's log. */
export function bare(error: unknown): Error {
  if (!(error instanceof Error)) return new Error("the Redis client rejected with no error");
  if ("command" in error) delete error.command;
  return error;
}

/** A driver's error from whatever the client, the connection or the server gave. */
export function asRedisError(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const code = codeOf(error);
  if (code !== undefined) {
    const [kind, outcome] = VERDICTS[code] ?? ["unavailable", "unknown"];
    return new DriverError(kind, outcome, `Redis said: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (error instanceof LinkError) {
    // A refused password is found out while connecting, where nothing has been sent yet.
    const refused = error.sent ? undefined : codeOf(error.cause);
    const kind = refused !== undefined && VERDICTS[refused]?.[0] === "config" ? "config" : null;
    return new DriverError(
      kind ?? (error.late ? "timeout" : "unavailable"),
      error.sent ? "unknown" : "not-applied",
      error.message,
      { cause: error },
    );
  }
  return new DriverError("unavailable", "unknown", "the Redis client failed", { cause: error });
}
