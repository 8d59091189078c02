/** What the driver's statements inside a transaction that has the lock's row do. */
import { type Access, duplicate, type Waiting } from "./postgres-access.ts";
import { idOf, type LockRow } from "./postgres-rows.ts";
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

type Rows = Waiting<readonly string[]>;

const NONE: readonly string[] = [];

/** A token above everything that was given at this name, or demanded. */
function mint(at: Access, row: LockRow, demanded: string): bigint {
  return largest(at.nextval(), above(row), row.raised + 1n, BigInt(demanded) + 1n);
}

function* makeRow(at: Access, args: Args): Rows {
  const key = arg(args, 1);
  yield* at.insert("locks", key, emptyLock(key));
  return NONE;
}

function* lockRow(at: Access, args: Args): Rows {
  const key = arg(args, 1);
  if (at.get("locks", key) === undefined) return NONE;
  return (yield* at.lock("locks", key)) === undefined ? NONE : ["1"];
}

function* putLock(at: Access, args: Args): Rows {
  const [key, state, permits, grant_id, holder, ttl, delay, lease, raised, abandoned] = args;
  yield* at.change(
    "locks",
    (row) => row.key === key,
    (row) => ({
      ...row,
      state: Number(state),
      permits: Number(permits),
      grant_id: grant_id ?? null,
      holder: holder ?? null,
      ttl_ms: Number(ttl),
      delay_ms: Number(delay),
      raised: BigInt(raised ?? 0),
      abandoned: abandoned === "true",
      expires: lease === "" ? row.expires : at.clock() + us(lease),
    }),
  );
  return NONE;
}

function* putGrant(at: Access, args: Args): Rows {
  const [key, grant_id = null, holder = null, ttl, delay, tokens, demanded, state, abandoned] =
    args;
  const done = yield* at.change(
    "locks",
    (row) => row.key === key,
    (row) => ({
      ...row,
      state: Number(state),
      permits: 1,
      grant_id,
      holder,
      ttl_ms: Number(ttl),
      delay_ms: Number(delay),
      expires: at.clock() + us(ttl),
      since: at.clock(),
      abandoned: abandoned === "true",
      previous: lastOf(row),
      first: mint(at, row, demanded ?? "0"),
      count: Number(tokens),
    }),
  );
  return done.map(({ first, previous }) => concat(first, "|", previous));
}

function* putShare(at: Access, args: Args): Rows {
  const [key = "", grant = "", mode, holder, ttl, delay, demanded] = args.map((each) => each ?? "");
  const was = at.get("locks", key);
  const [lock] = yield* at.change(
    "locks",
    (row) => row.key === key,
    (row) =>
      mode === "shared" ? { ...row, first: mint(at, row, demanded ?? "0"), count: 1 } : row,
  );
  if (lock === undefined || was === undefined) return NONE;
  const first = mode === "shared" ? lock.first : null;
  const previous = lastOf(was);
  const inserted = yield* at.insert("shares", idOf(key, grant), {
    key,
    grant_id: grant,
    mode: mode ?? "",
    holder: holder ?? "",
    ttl_ms: Number(ttl),
    delay_ms: Number(delay),
    expires: at.clock() + us(ttl),
    since: at.clock(),
    first,
    previous,
    abandoned: args[7] === "true",
  });
  if (!inserted) throw duplicate();
  return [concat(first, "|", previous)];
}

function* renewShare(at: Access, args: Args): Rows {
  yield* at.change(
    "shares",
    (row) => row.key === args[0] && row.grant_id === args[1],
    (row) => ({
      ...row,
      ttl_ms: Number(args[2]),
      delay_ms: Number(args[3]),
      expires: Math.max(row.expires, at.clock() + us(args[2])),
    }),
  );
  return NONE;
}

function* cutShare(at: Access, args: Args): Rows {
  yield* at.change(
    "shares",
    (row) => row.key === args[0] && row.grant_id === args[1],
    (row) => ({ ...row, expires: at.clock() }),
  );
  return NONE;
}

function* dropShare(at: Access, args: Args): Rows {
  yield* at.change(
    "shares",
    (row) => row.key === args[0] && row.grant_id === args[1],
    () => undefined,
  );
  return NONE;
}

function* dropSpent(at: Access, args: Args): Rows {
  yield* at.change(
    "shares",
    (row) => row.key === args[0] && row.expires + us(row.delay_ms) <= at.clock(),
    () => undefined,
  );
  return NONE;
}

function* join(at: Access, args: Args): Rows {
  const [key = "", grant = "", channel, mode, permits, holder, ttl, keep] = args.map(
    (each) => each ?? "",
  );
  const [lock] = yield* at.change(
    "locks",
    (row) => row.key === key,
    (row) => ({ ...row, arrivals: row.arrivals + 1 }),
  );
  if (lock === undefined) return NONE;
  if (at.rows("waiters", (row) => row.key === key && row.grant_id === grant).length > 0)
    throw duplicate();
  const joined = yield* at.insert("waiters", idOf(key, lock.arrivals), {
    key,
    seq: lock.arrivals,
    grant_id: grant,
    channel: channel ?? "",
    mode: mode ?? "",
    permits: Number(permits),
    holder: holder ?? "",
    ttl_ms: Number(ttl),
    keep_ms: Number(keep),
    until: at.clock() + us(keep),
    offered: null,
    missed: false,
  });
  // Its place may be there already, where the row that counts them was made anew.
  if (!joined) throw duplicate();
  return NONE;
}

function* heard(at: Access, args: Args): Rows {
  yield* at.change(
    "waiters",
    (row) => row.key === args[0] && row.grant_id === args[1],
    (row) => ({
      ...row,
      keep_ms: Number(args[2]),
      missed: false,
      until: Math.max(at.clock() + us(args[2]), row.offered ?? -Infinity),
    }),
  );
  return NONE;
}

function* leave(at: Access, args: Args): Rows {
  yield* at.change(
    "waiters",
    (row) => row.key === args[0] && row.grant_id === args[1],
    () => undefined,
  );
  return NONE;
}

const MINUTE_US = 60_000_000;

function* forgetDead(at: Access, args: Args): Rows {
  yield* at.change(
    "waiters",
    (row) => row.key === args[0] && row.until < at.clock() - MINUTE_US,
    () => undefined,
  );
  return NONE;
}

function* miss(at: Access, args: Args): Rows {
  yield* at.change(
    "waiters",
    (row) => row.key === args[0] && row.seq === Number(args[1]),
    (row) => ({ ...row, missed: true, offered: null }),
  );
  return NONE;
}

function* withdraw(at: Access, args: Args): Rows {
  yield* at.change(
    "waiters",
    (row) => row.key === args[0] && row.offered !== null,
    (row) => ({ ...row, offered: null }),
  );
  return NONE;
}

function* offer(at: Access, args: Args): Rows {
  yield* at.change(
    "waiters",
    (row) => row.key === args[0] && row.seq === Number(args[1]),
    (row) => {
      const offered = at.clock() + us(args[2]);
      return { ...row, offered, until: Math.max(row.until, offered) };
    },
  );
  return NONE;
}

function* bury(at: Access, args: Args): Rows {
  const [key, grant, kind] = [arg(args, 1), arg(args, 2), arg(args, 3)];
  const id = idOf(key, grant);
  const tomb = { key, grant_id: grant, kind, until: at.clock() + us(args[3]) };
  for (;;) {
    if (yield* at.insert("tombs", id, tomb)) return NONE;
    const old = yield* at.lock("tombs", id);
    if (old === undefined) continue;
    const until = Math.max(old.until, tomb.until);
    at.put("tombs", id, { ...tomb, until, kind: old.kind === "revoked" ? old.kind : kind });
    return NONE;
  }
}

function* wake(at: Access, args: Args): Rows {
  at.notify(arg(args, 1), arg(args, 2));
  return [""];
}

export const stepModel: Readonly<Record<string, Model>> = {
  makeRow,
  lockRow,
  putLock,
  putGrant,
  putShare,
  renewShare,
  cutShare,
  dropShare,
  dropSpent,
  join,
  heard,
  leave,
  forgetDead,
  miss,
  withdraw,
  offer,
  bury,
  wake,
};
