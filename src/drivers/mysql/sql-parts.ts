/** What the statements of the lease table have in common. */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { StepStatements } from "../sql/lock-step.ts";
import type { Statement } from "../sql/statement.ts";
import { encoded, type Tables } from "./options.ts";
import type { AtOnce } from "./sql-hand-off.ts";

/** The statements for tables with one prefix. `wanted` is a list of grants as a table, see `wanted`. */
export interface Statements extends StepStatements {
  readonly tables: Tables;
  readonly grantIdle: Statement;
  readonly releaseSole: Statement;
  readonly handOver: AtOnce;
  readonly takeOffer: AtOnce;
  readonly refresh: Statement;
  readonly look: Statement;
  readonly makeRow: Statement;
  readonly lockRow: Statement;
  readonly inspect: Statement;
  readonly list: Statement;
  readonly floor: Statement;
  readonly sweepAside: Statement;
  readonly idle: Statement;
  readonly renew: (table: "locks" | "shares" | "waiters", wanted: string) => string;
  readonly renewed: (table: "locks" | "shares" | "waiters", wanted: string) => string;
  readonly whyGone: (wanted: string) => string;
  readonly lockIdle: (ids: readonly string[]) => string;
  readonly spent: (ids: readonly string[]) => string;
  readonly settle: (ids: readonly string[]) => string;
  readonly settled: (ids: readonly string[]) => string;
  readonly remove: (ids: readonly string[], floor: bigint) => readonly string[];
}

/** Some of the statements. */
export type Part<K extends keyof Statements> = Pick<Statements, K>;

export const MAX: string = MAX_TOKEN.toString();

/**
 * The moment, in microseconds since 1970 by the server's clock, whatever the zone of the session. It stands still within
 * one statement, from before any wait for a row on: a lease that is written by it ends early, never late, and whoever
 * asked counts from before that statement was sent.
 */
export const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/** So many milliseconds as microseconds; text in arithmetic would be a floating-point number. */
export function us(expression: string): string {
  return `CAST(${expression} AS SIGNED) * 1000`;
}

/** The milliseconds from now to a moment. */
export function rest(moment: string): string {
  return `(${moment} - ${NOW}) / 1000`;
}

/** When the lock-delay of a row is over. */
export const END = "(expires + delay_ms * 1000)";

/** Of waiters: heard from, and not skipped by an offer. `asking` is who is here right now. */
export function live(asking = "''", now: string = NOW): string {
  return `(ends > ${now} AND missed = 0 AND (offered IS NULL OR offered > ${now} OR grant_id = ${asking}))`;
}

/** How every transaction of ours begins. Each statement sees what was committed before it: the session says so. */
export const START = "START TRANSACTION READ WRITE";
export const COMMIT = "COMMIT";

/** How long a session of ours may be silent, in seconds: also between the two messages of a step. */
export const IDLE_S = 28_800;
const STEP_S = 2;

/**
 * A process that stops between two messages must not keep others waiting for long: the server ends its session. This is
 * the one idle limit that MySQL and MariaDB share, and it is the session's, so what it was is put back.
 */
export const OPEN: readonly string[] = [`SET SESSION wait_timeout = ${STEP_S}`, START];
const QUIET = `SET SESSION wait_timeout = ${IDLE_S}`;
export const CLOSE: readonly string[] = [COMMIT, QUIET];
export const ROLLBACK: string = ["ROLLBACK", QUIET].join(";\n");

/** One grant of a list. */
export interface Wanted {
  readonly nr: number;
  readonly id: string;
  readonly grantId: string;
  readonly ttlMs: string;
  readonly delayMs: string;
}

/** A list of grants as a table: in the order of their ids, so that two lists do not wait for each other. */
export function wanted(list: readonly Wanted[]): string {
  const sorted = [...list].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const rows = sorted.map(
    ({ nr, id, grantId, ttlMs, delayMs }) =>
      `SELECT ${nr} AS nr, CAST(${encoded(id)} AS BINARY) AS id, CAST(${encoded(grantId)} AS BINARY) AS grant_id, ${ttlMs} AS ttl, ${delayMs} AS delay`,
  );
  return `(${rows.join(" UNION ALL ")})`;
}
