/** Statements of a transaction that has the lock's row, sent together as one message: their parameters are put in. */
import type { Tables } from "./options.ts";
import { ms, type Part } from "./sql-parts.ts";

type Written =
  | "putLock"
  | "putGrant"
  | "putShare"
  | "renewShare"
  | "cutShare"
  | "dropShare"
  | "dropSpent"
  | "join"
  | "heard"
  | "leave"
  | "miss"
  | "withdraw"
  | "offer"
  | "bury"
  | "wake"
  | "forgetDead"
  | "sweepAside"
  | "idle"
  | "sweepLocks";

export function writeSql(t: Tables): Part<Written> {
  return { ...lockSql(t), ...shareSql(t), ...waiterSql(t), ...offerSql(t), ...sweepSql(t) };
}

/** A token above everything that was given at this name, or demanded. The row is locked, so its number is above too. */
export function mint(tokens: string, above: string): string {
  return `greatest(nextval(${tokens}), l.first + l.count, l.raised + 1, ${above}::bigint + 1)`;
}

function lockSql(t: Tables): Part<"putLock" | "putGrant" | "bury"> {
  return {
    // args: key, state, permits, grant, holder, ttl, delay, ms of lease from now or '' to leave it, raised, abandoned.
    putLock: {
      name: "putLock",
      text: /* sql */ `UPDATE ${t.locks} SET state = $2::smallint, permits = $3::int, grant_id = $4, holder = $5,
  ttl_ms = $6::bigint, delay_ms = $7::bigint, raised = $9::bigint, abandoned = $10::boolean,
  expires = CASE WHEN $8 = '' THEN expires ELSE clock_timestamp() + ${ms("nullif($8, '')::float8")} END
WHERE key = $1`,
    },
    // args: key, grant, holder, ttl, delay, tokens, above, state, abandoned. an exclusive grant. returns `first|previous`.
    putGrant: {
      name: "putGrant",
      text: /* sql */ `UPDATE ${t.locks} AS l SET state = $8::smallint, permits = 1, grant_id = $2, holder = $3,
  ttl_ms = $4::bigint, delay_ms = $5::bigint, expires = clock_timestamp() + ${ms("$4::float8")},
  since = clock_timestamp(), abandoned = $9::boolean, previous = nullif(l.first + l.count - 1, 0),
  first = ${mint(t.tokens, "$7")}, count = $6::int
WHERE key = $1 RETURNING concat(first, '|', previous)`,
    },
    // args: key, grant, kind, ms.
    bury: {
      name: "bury",
      text: /* sql */ `INSERT INTO ${t.tombs} AS o (key, grant_id, kind, until)
VALUES ($1, $2, $3, clock_timestamp() + ${ms("$4::float8")})
ON CONFLICT (key, grant_id) DO UPDATE SET until = greatest(o.until, excluded.until),
  kind = CASE WHEN o.kind = 'revoked' THEN o.kind ELSE excluded.kind END`,
    },
  };
}

function shareSql(
  t: Tables,
): Part<"putShare" | "renewShare" | "cutShare" | "dropShare" | "dropSpent"> {
  const own = "WHERE key = $1 AND grant_id = $2";
  return {
    // args: key, grant, mode, holder, ttl, delay, above, abandoned. returns `first|previous`. A shared lease has a token, a
    // permit has none.
    putShare: {
      name: "putShare",
      text: /* sql */ `WITH l AS (UPDATE ${t.locks} AS l SET
    first = CASE WHEN $3 = 'shared' THEN ${mint(t.tokens, "$7")} ELSE l.first END,
    count = CASE WHEN $3 = 'shared' THEN 1 ELSE l.count END
  FROM ${t.locks} AS was WHERE l.key = $1 AND was.key = l.key
  RETURNING l.first, nullif(was.first + was.count - 1, 0) AS previous)
INSERT INTO ${t.shares} (key, grant_id, mode, holder, ttl_ms, delay_ms, expires, since, first, previous, abandoned)
SELECT $1, $2, $3, $4, $5::bigint, $6::bigint, clock_timestamp() + ${ms("$5::float8")}, clock_timestamp(),
  CASE WHEN $3 = 'shared' THEN l.first END, l.previous, $8::boolean FROM l
RETURNING concat(first, '|', previous)`,
    },
    // args: key, grant, ttl, delay.
    renewShare: {
      name: "renewShare",
      text: /* sql */ `UPDATE ${t.shares} SET ttl_ms = $3::bigint, delay_ms = $4::bigint,
  expires = greatest(expires, clock_timestamp() + ${ms("$3::float8")}) ${own}`,
    },
    // args: key, grant. its lock-delay runs from now.
    cutShare: {
      name: "cutShare",
      text: `UPDATE ${t.shares} SET expires = clock_timestamp() ${own}`,
    },
    // args: key, grant.
    dropShare: { name: "dropShare", text: `DELETE FROM ${t.shares} ${own}` },
    // args: key.
    dropSpent: {
      name: "dropSpent",
      text: `DELETE FROM ${t.shares} WHERE key = $1 AND expires + ${ms("delay_ms")} <= clock_timestamp()`,
    },
  };
}

function waiterSql(t: Tables): Part<"join" | "heard" | "leave" | "forgetDead"> {
  return {
    // args: key, grant, channel, mode, permits, holder, ttl, keep. adds at the end.
    join: {
      name: "join",
      text: /* sql */ `WITH l AS (UPDATE ${t.locks} SET arrivals = arrivals + 1 WHERE key = $1 RETURNING arrivals)
INSERT INTO ${t.waiters} (key, seq, grant_id, channel, mode, permits, holder, ttl_ms, keep_ms, until)
SELECT $1, l.arrivals, $2, $3, $4, $5::int, $6, $7::bigint, $8::bigint, clock_timestamp() + ${ms("$8::float8")}
FROM l`,
    },
    // args: key, grant, keep.
    heard: {
      name: "heard",
      text: /* sql */ `UPDATE ${t.waiters} SET keep_ms = $3::bigint, missed = false,
  until = greatest(clock_timestamp() + ${ms("$3::float8")}, offered)
WHERE key = $1 AND grant_id = $2`,
    },
    // args: key, grant.
    leave: {
      name: "leave",
      text: `DELETE FROM ${t.waiters} WHERE key = $1 AND grant_id = $2`,
    },
    // args: key. those who have been dead for long.
    forgetDead: {
      name: "forgetDead",
      text: `DELETE FROM ${t.waiters} WHERE key = $1 AND until < clock_timestamp() - interval '1 minute'`,
    },
  };
}

function offerSql(t: Tables): Part<"miss" | "withdraw" | "offer" | "wake"> {
  return {
    // args: key, seq.
    miss: {
      name: "miss",
      text: `UPDATE ${t.waiters} SET missed = true, offered = NULL WHERE key = $1 AND seq = $2::bigint`,
    },
    // args: key.
    withdraw: {
      name: "withdraw",
      text: `UPDATE ${t.waiters} SET offered = NULL WHERE key = $1 AND offered IS NOT NULL`,
    },
    // args: key, seq, ms.
    offer: {
      name: "offer",
      text: /* sql */ `UPDATE ${t.waiters} SET offered = clock_timestamp() + ${ms("$3::float8")},
  until = greatest(until, clock_timestamp() + ${ms("$3::float8")})
WHERE key = $1 AND seq = $2::bigint`,
    },
    // args: channel, grant. told when the transaction commits, and only where somebody waits: each such commit takes a
    // lock of the whole database.
    wake: { name: "wake", text: "SELECT pg_notify($1, $2)::text" },
  };
}

function sweepSql(t: Tables): Part<"sweepAside" | "idle" | "sweepLocks"> {
  const spent = `(state = 0 AND (NOT abandoned OR expires < clock_timestamp() - interval '1 day')
    OR state = 1 AND expires + ${ms("delay_ms")} < clock_timestamp() - interval '1 day')
  AND since < clock_timestamp() - interval '1 minute'
  AND greatest(first + count - 1, raised) <= (SELECT last_value FROM ${t.sequence})`;
  const emptied = `state = 2 AND NOT EXISTS (SELECT 1 FROM ${t.waiters} AS w WHERE w.key = l.key)
  AND NOT EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.key = l.key)
  AND NOT EXISTS (SELECT 1 FROM ${t.tombs} AS o WHERE o.key = l.key)`;
  return {
    // args: none. what is long over.
    sweepAside: {
      name: "sweepAside",
      text: /* sql */ `DELETE FROM ${t.tombs} WHERE until < clock_timestamp();
DELETE FROM ${t.shares} WHERE expires + ${ms("delay_ms")} < clock_timestamp();
DELETE FROM ${t.waiters} WHERE until < clock_timestamp() - interval '10 minutes'`,
    },
    // args: how many. returns keys of rows that can go, or are simple again.
    idle: {
      name: "ringfence_idle",
      text: /* sql */ `SELECT l.key FROM ${t.locks} AS l WHERE (${spent}) OR (${emptied}) LIMIT $1::text::bigint`,
    },
    // args: JSON array of keys. Rows of names that nobody uses go once their numbers are behind the sequence. The table
    // lock waits for grants under way: one may have drawn its number while no row was there, and must not come after it.
    sweepLocks: {
      name: "sweepLocks",
      text: /* sql */ `SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT set_config('lock_timeout', '50', true);
LOCK TABLE ${t.locks} IN SHARE ROW EXCLUSIVE MODE;
UPDATE ${t.locks} SET state = CASE WHEN grant_id IS NULL THEN 0 ELSE 1 END WHERE key IN (SELECT l.key
  FROM ${t.locks} AS l WHERE l.key IN (SELECT json_array_elements_text($1::json)) AND ${emptied}
  FOR UPDATE SKIP LOCKED);
DELETE FROM ${t.locks} WHERE key IN (SELECT l.key FROM ${t.locks} AS l
  WHERE l.key IN (SELECT json_array_elements_text($1::json)) AND ${spent} FOR UPDATE SKIP LOCKED)`,
    },
  };
}
