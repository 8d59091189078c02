import type { Mode } from "../../core/capabilities.ts";
import type { LockRecord } from "../../core/driver.ts";
import { decodeName } from "../../core/lock-name.ts";

/** A name as its tables have it, for people. Times are milliseconds from now, `since` is a Unix time. */
export interface Shown {
  readonly lock: {
    readonly grant: string;
    readonly holder: string;
    readonly first: string;
    readonly last: string;
    readonly rest: number;
    readonly end: number;
    readonly since: number;
  } | null;
  readonly permits: number | null;
  readonly shares: readonly {
    readonly grant: string;
    readonly mode: Mode;
    readonly holder: string;
    readonly first: string | null;
    readonly rest: number;
    readonly since: number;
  }[];
  readonly quiet: number | null;
  readonly waiters: readonly {
    readonly grant: string;
    readonly holder: string;
    readonly mode: Mode;
  }[];
}

/** What people are shown of a name. */
export function recordOf(name: string, shown: Shown): LockRecord {
  const { lock, permits, shares, quiet, waiters } = shown;
  const sole = lock !== null && lock.rest > 0 ? lock : null;
  const semaphore = (shares[0] ?? (sole === null ? waiters[0] : undefined))?.mode === "permits";
  const holders = [
    ...(sole === null
      ? []
      : [{ ...held(sole), token: BigInt(sole.first), lastToken: BigInt(sole.last) }]),
    ...shares.map((share) => {
      const token = share.first === null ? null : BigInt(share.first);
      return { ...held(share), token, lastToken: token };
    }),
  ];
  return {
    name,
    mode: sole === null ? (shares[0]?.mode ?? null) : "exclusive",
    permits: semaphore ? (permits ?? 1) : 1,
    holders,
    waiters: waiters.map(({ grant, holder }) => ({ grantId: grant, holder })),
    lockDelayMs: holders.length > 0 ? 0 : Math.max(0, lock?.end ?? 0, quiet ?? 0),
  };
}

function held(row: {
  readonly grant: string;
  readonly holder: string;
  readonly rest: number;
  readonly since: number;
}): {
  readonly grantId: string;
  readonly holder: string;
  readonly remainingMs: number;
  readonly sinceMs: number;
} {
  return {
    grantId: row.grant,
    holder: row.holder,
    remainingMs: row.rest,
    sinceMs: row.since,
  };
}

/** A page of names from their keys in order: one more than asked for, when there are more. The cursor is the last key. */
export function pageOf(
  keys: readonly string[],
  limit: number,
  space: string,
): { readonly names: readonly string[]; readonly cursor?: string } {
  const names = keys.slice(0, limit).map((key) => decodeName(key.slice(space.length)));
  const last = keys[limit - 1];
  return keys.length > limit && last !== undefined ? { names, cursor: last } : { names };
}
