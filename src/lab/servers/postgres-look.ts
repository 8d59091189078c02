/** What the driver's statements that only read show. */
import type { Access, Waiting } from "./postgres-access.ts";
import { ServerComplaint } from "./postgres-engine.ts";
import type { ShareRow, WaiterRow } from "./postgres-rows.ts";
import { type Args, arg, type Model, us } from "./postgres-values.ts";

/** How many waiters a step sees. */
const IN_SIGHT = 64;

/** Milliseconds between two moments, by the server's own arithmetic: seconds as a float, times a thousand. */
function rest(moment: number, now: number): number {
  if (!Number.isFinite(moment)) throw new ServerComplaint("22008", "timestamp out of range");
  return ((moment - now) / 1e6) * 1000;
}

/** Milliseconds since 1970; JSON has no infinity but as text. */
function epoch(moment: number): number | string {
  return Number.isFinite(moment) ? rest(moment, 0) : String(moment);
}

function endOf(row: { readonly expires: number; readonly delay_ms: number }): number {
  return row.expires + us(row.delay_ms);
}

function text(value: bigint | null): string | null {
  return value === null ? null : String(value);
}

function most(values: readonly number[]): number | null {
  return values.length === 0 ? null : Math.max(...values);
}

function least(values: readonly number[]): number | null {
  return values.length === 0 ? null : Math.min(...values);
}

function first(values: readonly string[]): string | null {
  return values.reduce<string | null>((a, b) => (a === null || b < a ? b : a), null);
}

/** Heard from, and not skipped by an offer. */
export function isLive(row: WaiterRow, now: number, asking?: string): boolean {
  if (row.until <= now || row.missed) return false;
  return row.offered === null || row.offered > now || row.grant_id === asking;
}

function bySeq(rows: readonly WaiterRow[]): WaiterRow[] {
  return [...rows].sort((a, b) => a.seq - b.seq);
}

function sharesSeen(shares: readonly ShareRow[], now: number): object {
  const running = shares.filter((row) => endOf(row) > now);
  const of = (mode: string): number => running.filter((row) => row.mode === mode).length;
  return {
    shared: of("shared"),
    permits: of("permits"),
    soonest: least(running.map((row) => rest(endOf(row), now))),
    latest: most(shares.map((row) => rest(endOf(row), now))),
    living: most(shares.map((row) => rest(row.expires, now))),
    spent: shares.length - running.length,
    holder: first(shares.filter((row) => row.expires > now).map((row) => row.holder)),
  };
}

function waitersSeen(all: readonly WaiterRow[], now: number, grant: string): object {
  const own = all.find((row) => row.grant_id === grant);
  const live = bySeq(all.filter((row) => isLive(row, now, grant)));
  const ahead = live.filter((row) => row.seq < (own?.seq ?? Infinity));
  const offered = all.flatMap((row) => (row.offered === null ? [] : [row.offered]));
  return {
    waiter: own === undefined ? null : { seq: own.seq, offered: own.offered !== null },
    ahead: [ahead.length, ahead.filter((row) => row.mode !== "shared").length],
    semaphore: live.find((row) => row.mode === "permits")?.permits ?? null,
    entries: all.length,
    offersEnd: most(offered.filter((end) => end > now).map((end) => rest(end, now))),
    late: all
      .filter((row) => row.offered !== null && row.offered <= now && row.grant_id !== grant)
      .map((row) => row.seq),
    head: live[0]?.holder ?? null,
    waiters: live.slice(0, IN_SIGHT).map((row) => ({
      seq: row.seq,
      grant: row.grant_id,
      mode: row.mode,
      ttl: row.ttl_ms,
      channel: row.channel,
      offered: row.offered !== null,
    })),
  };
}

function* look(at: Access, args: Args): Waiting<readonly string[]> {
  const [key, grant] = [arg(args, 1), arg(args, 2)];
  const now = at.clock();
  const lock = at.get("locks", key);
  const shares = at.rows("shares", (row) => row.key === key);
  const share = shares.find((row) => row.grant_id === grant && endOf(row) > now);
  const tombs = at.rows("tombs", (row) => row.key === key && row.until > now);
  return [
    JSON.stringify({
      lock:
        lock === undefined
          ? null
          : {
              permits: lock.permits,
              grant: lock.grant_id,
              holder: lock.holder,
              ttl: lock.ttl_ms,
              delay: lock.delay_ms,
              rest: lock.grant_id === null ? 0 : rest(lock.expires, now),
              first: String(lock.first),
              count: lock.count,
              raised: String(lock.raised),
              previous: text(lock.previous),
              abandoned: lock.abandoned,
              state: lock.state,
            },
      tomb: tombs.find((row) => row.grant_id === grant)?.kind ?? null,
      tombs: tombs.length > 0,
      share:
        share === undefined
          ? null
          : {
              mode: share.mode,
              rest: rest(share.expires, now),
              ttl: share.ttl_ms,
              delay: share.delay_ms,
              first: text(share.first),
              previous: text(share.previous),
              abandoned: share.abandoned,
            },
      shares: sharesSeen(shares, now),
      ...waitersSeen(
        at.rows("waiters", (row) => row.key === key),
        now,
        grant,
      ),
    }),
  ];
}

function* inspect(at: Access, args: Args): Waiting<readonly string[]> {
  const key = arg(args, 1);
  const now = at.clock();
  const found = at.get("locks", key);
  const lock = found?.grant_id == null ? undefined : found;
  const all = at.rows("shares", (row) => row.key === key);
  const shares = all.filter((row) => row.expires > now);
  const order = (row: ShareRow): string => `${String(row.since).padStart(20)} ${row.grant_id}`;
  shares.sort((a, b) => (order(a) < order(b) ? -1 : 1));
  const waiters = bySeq(at.rows("waiters", (row) => row.key === key && isLive(row, now)));
  return [
    JSON.stringify({
      lock:
        lock === undefined
          ? null
          : {
              permits: lock.permits,
              grant: lock.grant_id,
              holder: lock.holder,
              first: String(lock.first),
              last: String(lock.first + BigInt(lock.count) - 1n),
              rest: rest(lock.expires, now),
              end: rest(endOf(lock), now),
              since: epoch(lock.since),
            },
      permits: found?.permits ?? null,
      shares: shares.map((row) => ({
        grant: row.grant_id,
        mode: row.mode,
        holder: row.holder,
        first: text(row.first),
        rest: rest(row.expires, now),
        since: epoch(row.since),
      })),
      quiet: most(all.map((row) => rest(endOf(row), now))),
      waiters: waiters.map(({ grant_id: grant, holder, mode }) => ({ grant, holder, mode })),
    }),
  ];
}

function* list(at: Access, args: Args): Waiting<readonly string[]> {
  const [from, to, after] = [arg(args, 1), arg(args, 2), arg(args, 3)];
  const now = at.clock();
  const used = ({ key, state, grant_id, expires }: Used): boolean =>
    state > 0 &&
    ((grant_id !== null && expires > now) ||
      at.rows("shares", (row) => row.key === key && row.expires > now).length > 0 ||
      at.rows("waiters", (row) => row.key === key && isLive(row, now)).length > 0);
  const keys = at
    .rows("locks", (row) => row.key >= from && row.key < to && row.key > after && used(row))
    .map(({ key }) => key);
  return keys.sort().slice(0, Number(arg(args, 4)));
}

interface Used {
  readonly key: string;
  readonly state: number;
  readonly grant_id: string | null;
  readonly expires: number;
}

export const lookModel: Readonly<Record<string, Model>> = { look, inspect, list };
