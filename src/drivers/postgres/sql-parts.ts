/** What the statements of the lease table have in common. */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { Statement } from "../sql/statement.ts";
import type { Tables } from "./options.ts";

/** The statements for tables with one prefix. */
export interface Statements {
  readonly tables: Tables;
  readonly grantIdle: Statement;
  readonly releaseSole: Statement;
  readonly releaseSoles: Statement;
  readonly renewSole: Statement;
  readonly renewShares: Statement;
  readonly renewWaiters: Statement;
  readonly refresh: Statement;
  readonly whyGone: Statement;
  readonly begin: Statement;
  readonly makeRow: Statement;
  readonly lockRow: Statement;
  readonly look: Statement;
  readonly commit: Statement;
  readonly putLock: Statement;
  readonly putGrant: Statement;
  readonly putShare: Statement;
  readonly renewShare: Statement;
  readonly cutShare: Statement;
  readonly dropShare: Statement;
  readonly dropSpent: Statement;
  readonly join: Statement;
  readonly heard: Statement;
  readonly leave: Statement;
  readonly miss: Statement;
  readonly withdraw: Statement;
  readonly offer: Statement;
  readonly bury: Statement;
  readonly wake: Statement;
  readonly handOver: Statement;
  readonly takeOffer: Statement;
  readonly forgetDead: Statement;
  readonly inspect: Statement;
  readonly list: Statement;
  readonly sweepAside: Statement;
  readonly idle: Statement;
  readonly sweepLocks: Statement;
}

/** Some of the statements. */
export type Part<K extends keyof Statements> = Pick<Statements, K>;

export const MAX: string = MAX_TOKEN.toString();

/**
 * A commit that counts is on disk, and on the standbys that the server waits for, before it is answered; where the user
 * asks for more than `on`, that stays.
 */
export const SYNC = `set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
  THEN 'on' ELSE current_setting('synchronous_commit') END, true)`;

/** So many milliseconds as an interval. */
export function ms(expression: string): string {
  return `(${expression} * interval '1 millisecond')`;
}

/** Of waiters: heard from, and not skipped by an offer. `now` is the moment, `asking` who is here right now. */
export function live(now: string, asking = "NULL"): string {
  return `(until > ${now} AND NOT missed AND (offered IS NULL OR offered > ${now} OR grant_id = ${asking}))`;
}
