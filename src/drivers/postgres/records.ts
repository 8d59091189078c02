import type { Mode } from "../../core/capabilities.ts";
import type { LockRecord } from "../../core/driver.ts";
import { decodeName, encodeName } from "../../core/lock-name.ts";
import type { Connection } from "./connection.ts";
import type { Statements } from "./sql-parts.ts";

/** What the statement `inspect` shows. */
interface Shown {
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
export async function recordOf(
  connection: Connection,
  sql: Statements,
  at: { readonly name: string; readonly key: string; readonly dueAt: number },
): Promise<LockRecord> {
  const [row = "{}"] = await connection.run({ statement: sql.inspect, args: [at.key] }, at.dueAt);
  const { lock, permits, shares, quiet, waiters } = JSON.parse(row) as Shown;
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
    name: at.name,
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

/** Names that are held or waited for, in the order of their encoded bytes; the cursor is the last key. */
export async function listNames(
  connection: Connection,
  sql: Statements,
  space: string,
  page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
  dueAt: number,
): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
  const from = space + encodeName(page.prefix);
  // Every character of a key sorts before the brace.
  const args = [from, `${from}{`, page.cursor ?? "", String(page.limit + 1)];
  const keys = await connection.run({ statement: sql.list, args }, dueAt);
  const names = keys.slice(0, page.limit).map((key) => decodeName(key.slice(space.length)));
  const last = keys[page.limit - 1];
  return keys.length > page.limit && last !== undefined ? { names, cursor: last } : { names };
}
