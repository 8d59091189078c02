/** What the driver's statements on uncontended leases and on batches do, by their names: functions over the tables. */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { Access, Waiting } from "./postgres-access.ts";
import { handOffModel } from "./postgres-hand-off.ts";
import { lookModel } from "./postgres-look.ts";
import { idOf, type LockRow } from "./postgres-rows.ts";
import { stepModel } from "./postgres-step.ts";
import { sweepModel } from "./postgres-sweep.ts";
import {
  type Args,
  above,
  arg,
  concat,
  emptyLock,
  largest,
  lastOf,
  type Model,
  us,
} from "./postgres-values.ts";

function* grantIdle(at: Access, args: Args): Waiting<readonly string[]> {
  const [key, grant, holder] = [arg(args, 1), arg(args, 2), arg(args, 3)];
  const [ttl_ms, delay_ms] = [Number(arg(args, 4)), Number(arg(args, 5))];
  yield* at.writesLocks();
  const terms = { grant_id: grant, holder, ttl_ms, delay_ms };
  // A number is drawn before it is known whether there is a row, and is lost where there is one.
  const began = at.clock();
  const fresh: LockRow = {
    ...emptyLock(key),
    ...terms,
    state: 1,
    expires: began + us(ttl_ms),
    since: at.clock(),
    first: at.nextval(),
  };
  for (;;) {
    if (yield* at.insert("locks", key, fresh)) return [given(at, fresh)];
    const lock = yield* at.lock("locks", key);
    if (lock === undefined) continue;
    const over = lock.expires + us(lock.delay_ms) <= at.clock();
    if (!(lock.state === 0 || (lock.state === 1 && over))) return [];
    if (above(lock) > MAX_TOKEN || lock.raised >= MAX_TOKEN) return [];
    const row: LockRow = {
      ...lock,
      ...terms,
      state: 1,
      permits: 1,
      expires: at.clock() + us(ttl_ms),
      since: at.clock(),
      first: largest(at.nextval(), above(lock), lock.raised + 1n),
      count: 1,
      previous: lastOf(lock),
      abandoned: lock.abandoned || lock.state === 1,
    };
    at.put("locks", key, row);
    return [given(at, row)];
  }
}

function given(at: Access, row: LockRow): string {
  return concat(row.first, "|", row.previous, "|", row.abandoned, "|", at.raiseSync());
}

const FREED = { state: 0, grant_id: null, holder: null, abandoned: false } as const;

function* releaseSole(at: Access, args: Args): Waiting<readonly string[]> {
  const freed = yield* at.change(
    "locks",
    (row) =>
      row.key === args[0] &&
      row.grant_id === args[1] &&
      row.state === 1 &&
      row.expires > at.clock(),
    (row) => ({ ...row, ...FREED }),
  );
  return freed.map(() => "1");
}

interface Wanted {
  readonly nr: number;
  readonly key: string;
  readonly id: string;
  readonly ttl: number;
  readonly delay: number;
}

/** A JSON array of [key, grant, ttl, delay]. */
function wantedOf(args: Args): Wanted[] {
  const list = JSON.parse(arg(args, 1)) as [string, string, string, string][];
  return list.map(([key, id, ttl, delay], i) => {
    return { nr: i + 1, key, id, ttl: Number(ttl), delay: Number(delay) };
  });
}

/** Locks the rows of those that hold, in the order of their keys, so that two batches do not wait for each other. */
function* lockMine(at: Access, wants: readonly Wanted[]): Waiting<ReadonlySet<string>> {
  const holds = (row: LockRow): boolean =>
    wants.some(({ key, id }) => row.key === key && row.grant_id === id);
  const mine = new Set<string>();
  for (const { key } of at.rows("locks", holds).sort((a, b) => (a.key < b.key ? -1 : 1))) {
    const now = yield* at.lock("locks", key);
    if (now !== undefined && holds(now)) mine.add(key);
  }
  return mine;
}

/** What was changed of those wanted, by their numbers. A name that is wanted twice is changed once. */
function* changeMine(
  at: Access,
  wants: readonly Wanted[],
  is: (row: LockRow, want: Wanted) => boolean,
  set: (row: LockRow, want: Wanted) => LockRow,
): Waiting<number[]> {
  yield* at.writesLocks();
  const mine = yield* lockMine(at, wants);
  const done: number[] = [];
  const seen = new Set<string>();
  for (const want of wants) {
    if (!mine.has(want.key) || seen.has(want.key)) continue;
    const fits = (row: LockRow): boolean =>
      row.key === want.key && row.grant_id === want.id && is(row, want);
    const changed = yield* at.change("locks", fits, (row) => set(row, want));
    if (changed.length === 0) continue;
    seen.add(want.key);
    done.push(want.nr);
  }
  return done;
}

function* releaseSoles(at: Access, args: Args): Waiting<readonly string[]> {
  const done = yield* changeMine(
    at,
    wantedOf(args),
    (row) => row.state === 1 && row.expires > at.clock(),
    (row) => ({ ...row, ...FREED }),
  );
  return done.map(String);
}

/** The terms of a renewal: never an earlier end. */
function renewed<R extends { readonly expires: number }>(at: Access, row: R, want: Wanted): R {
  const expires = Math.max(row.expires, at.clock() + us(want.ttl));
  return { ...row, ttl_ms: want.ttl, delay_ms: want.delay, expires };
}

function* renewSole(at: Access, args: Args): Waiting<readonly string[]> {
  const done = yield* changeMine(
    at,
    wantedOf(args),
    (row) => row.expires > at.clock(),
    (row, want) => renewed(at, row, want),
  );
  return done.map((nr) => concat(nr, "|", at.raiseSync()));
}

function* renewShares(at: Access, args: Args): Waiting<readonly string[]> {
  const done: string[] = [];
  for (const want of wantedOf(args)) {
    const changed = yield* at.change(
      "shares",
      (row) => row.key === want.key && row.grant_id === want.id && row.expires > at.clock(),
      (row) => renewed(at, row, want),
    );
    if (changed.length > 0) done.push(concat(want.nr, "|", at.raiseSync()));
  }
  return done;
}

function* renewWaiters(at: Access, args: Args): Waiting<readonly string[]> {
  const done: string[] = [];
  for (const { nr, key, id } of wantedOf(args)) {
    const changed = yield* at.change(
      "waiters",
      (row) => row.key === key && row.grant_id === id,
      (row) => {
        const until = Math.max(at.clock() + us(row.keep_ms), row.offered ?? -Infinity);
        return { ...row, until, missed: false };
      },
    );
    if (changed.length > 0) done.push(String(nr));
  }
  return done;
}

/** How many entries before a waiter are counted. */
const COUNTED = 100;

function* refresh(at: Access, args: Args): Waiting<readonly string[]> {
  const [key, grant] = [arg(args, 1), arg(args, 2)];
  const now = at.clock();
  const lock = at.get("locks", key);
  if (lock === undefined || lock.grant_id === null || lock.expires <= now) return [];
  const [own] = at.rows("waiters", (row) => row.key === key && row.grant_id === grant);
  if (own === undefined) return [];
  const before = at.rows(
    "waiters",
    (row) => row.key === key && row.seq < own.seq && row.until > now && !row.missed,
  );
  const ahead = Math.min(before.length, COUNTED);
  const keep = Number(ahead < 3 ? args[2] : args[3]);
  const changed = yield* at.change(
    "waiters",
    (row) =>
      row.key === key && row.seq === own.seq && row.grant_id === grant && row.offered === null,
    (row) => ({ ...row, keep_ms: keep, until: now + us(keep), missed: false }),
  );
  const rest = ((lock.expires - now) / 1000).toFixed(6);
  return changed.map(() =>
    concat(rest, "|", lock.delay_ms, "|", ahead, "|", keep, "|", lock.holder),
  );
}

function* whyGone(at: Access, args: Args): Waiting<readonly string[]> {
  const now = at.clock();
  return wantedOf(args).map(({ nr, key, id }) => {
    const tomb = at.get("tombs", idOf(key, id));
    const kind = tomb !== undefined && tomb.until > now ? tomb.kind : null;
    const lock = at.get("locks", key);
    const taken = lock !== undefined && lock.grant_id !== null && lock.grant_id !== id;
    return concat(nr, "|", kind, "|", taken && lock.expires > now);
  });
}

/** Every statement of the lease table that is more than the frame of a transaction. */
export const MODEL: Readonly<Record<string, Model>> = {
  grantIdle,
  releaseSole,
  releaseSoles,
  renewSole,
  renewShares,
  renewWaiters,
  refresh,
  whyGone,
  ...lookModel,
  ...stepModel,
  ...sweepModel,
  ...handOffModel,
};
