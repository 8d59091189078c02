import type { LockRecord } from "../../core/driver.ts";
import { decodeName, encodeName } from "../../core/lock-name.ts";
import { big } from "./lock-step.ts";
import type { Step, Store } from "./step.ts";
import type { LockRow, ShareRow } from "./tables.ts";

type HolderRecord = LockRecord["holders"][number];

/** What people are shown of a name. Reads only. */
export function recordOf(step: Step, name: string): LockRecord {
  const { sql, now } = step;
  const at = { key: step.store.key(name), now };
  const row = step.get(sql.lock, { key: at.key });
  const sole = row === undefined ? [] : soleOf(row, now);
  const shares = step.all(sql.shares, at);
  const waiters = step.all(sql.waiters, at);
  const semaphore = (shares[0] ?? (sole.length > 0 ? undefined : waiters[0]))?.mode === "permits";
  const sums = step.get(sql.shareSums, { key: at.key });
  const soleEnd = row?.grant_id == null ? 0 : row.expires + row.delay_ms;
  const holders = [...sole, ...shares.map((share) => shareOf(share, now))];
  const quietUntil = holders.length > 0 ? 0 : Math.max(soleEnd, sums?.latest ?? 0);
  return {
    name,
    mode: sole.length > 0 ? "exclusive" : (shares[0]?.mode ?? null),
    permits: semaphore ? (row?.permits ?? 1) : 1,
    holders,
    waiters: waiters.map(({ grant_id, holder }) => ({ grantId: grant_id, holder })),
    lockDelayMs: Math.max(0, quietUntil - now),
  };
}

function soleOf(row: LockRow, now: number): HolderRecord[] {
  if (row.grant_id === null || row.expires <= now) return [];
  return [
    {
      grantId: row.grant_id,
      holder: row.holder ?? "",
      token: BigInt(row.first),
      lastToken: BigInt(row.last),
      remainingMs: row.expires - now,
      sinceMs: row.since,
    },
  ];
}

function shareOf(share: ShareRow, now: number): HolderRecord {
  return {
    grantId: share.grant_id,
    holder: share.holder,
    token: big(share.first),
    lastToken: big(share.first),
    remainingMs: share.expires - now,
    sinceMs: share.since,
  };
}

/** Names that are held or waited for, in the order of their encoded bytes; the cursor is the last key. */
export function listNames(
  store: Store,
  page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
): { readonly names: readonly string[]; readonly cursor?: string } {
  const from = store.prefix + encodeName(page.prefix);
  const rows = store.client.all(store.sql.list, {
    from,
    // Every character of a key sorts before it.
    to: `${from}{`,
    after: page.cursor ?? "",
    limit: page.limit + 1,
    now: store.clock.mono(),
  });
  const names = rows
    .slice(0, page.limit)
    .map(({ key }) => decodeName(key.slice(store.prefix.length)));
  const last = rows[page.limit - 1]?.key;
  return rows.length > page.limit && last !== undefined ? { names, cursor: last } : { names };
}
