/** What the models of the driver's statements have in common. */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { Access, Waiting } from "./postgres-access.ts";
import type { LockRow } from "./postgres-rows.ts";

export type Args = readonly (string | null)[];

/** One statement: the first column of each row that it returns. */
export type Model = (at: Access, args: Args) => Waiting<readonly string[]>;

/** Microseconds of so many milliseconds. */
export function us(ms: string | number | null | undefined): number {
  return Math.round(Number(ms ?? 0) * 1000);
}

/** A text that was passed. */
export function arg(args: Args, n: number): string {
  return args[n - 1] ?? "";
}

/** The next token of a name by its row alone. */
export function above(row: LockRow): bigint {
  return row.first + BigInt(row.count);
}

export function largest(...values: readonly bigint[]): bigint {
  return values.reduce((a, b) => (a > b ? a : b));
}

/** The last token that was given at a name; `null` when there was none. */
export function lastOf(row: LockRow): bigint | null {
  const last = above(row) - 1n;
  return last === 0n ? null : last;
}

/** Booleans and what is NULL, as `concat` has them. */
export function concat(...parts: readonly (string | bigint | number | boolean | null)[]): string {
  return parts
    .map((part) => (part === null ? "" : part === true ? "t" : part === false ? "f" : String(part)))
    .join("");
}

const EMPTY: Omit<LockRow, "key"> = {
  state: 0,
  permits: 1,
  grant_id: null,
  holder: null,
  ttl_ms: 0,
  delay_ms: 0,
  expires: -Infinity,
  since: -Infinity,
  first: 0n,
  count: 1,
  raised: 0n,
  previous: null,
  abandoned: false,
  arrivals: 0,
};

export function emptyLock(key: string): LockRow {
  return { key, ...EMPTY };
}

/** How the server shows a setting that is so many milliseconds. */
export function inUnits(ms: number): string {
  if (ms === 0) return "0";
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** The largest token. */
export const MOST: bigint = MAX_TOKEN;
