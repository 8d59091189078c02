/**
 * Every statement of the lease table, by name. All parameters are text. One clock is read, `clock_timestamp()`: `now()`
 * is the moment at which a transaction began, and a lease by it may be over before it was granted.
 *
 * `state` of a lock: 0 nothing but counters, 1 one exclusive holder and nothing else, 2 there may be shares, waiters or
 * tombstones. Steps that nobody contends are one statement each, on rows of state 0 and 1 alone. All others run in a
 * transaction that locks the row first and looks afterwards, so that they see whatever came before.
 */
import type { Tables } from "./options.ts";
import { handOffSql } from "./sql-hand-off.ts";
import { lookSql } from "./sql-look.ts";
import { MAX, ms, type Part, type Statements, SYNC } from "./sql-parts.ts";
import { writeSql } from "./sql-write.ts";

/** Makes the statements for one schema and prefix. */
export function statements(t: Tables): Statements {
  return {
    tables: t,
    ...soleSql(t),
    ...renewSql(t),
    ...stepSql(t),
    ...lookSql(t),
    ...writeSql(t),
    ...handOffSql(t),
  };
}

/** The steps on an exclusive lease that nobody contends. */
function soleSql(t: Tables): Part<"grantIdle" | "releaseSole" | "releaseSoles" | "renewSole"> {
  const free = `(l.state = 0 OR (l.state = 1 AND l.expires + ${ms("l.delay_ms")} <= clock_timestamp()))`;
  return {
    // args: key, grant, holder, ttl, delay. returns `first|previous|abandoned`; nothing unless the name is new or idle.
    // The row is locked before anything after ON CONFLICT is evaluated, so a number drawn there is above the last grant's.
    grantIdle: {
      name: "ringfence_grant_idle",
      text: /* sql */ `INSERT INTO ${t.locks} AS l (key, state, grant_id, holder, ttl_ms, delay_ms, expires, since, first)
SELECT $1::text, 1, $2::text, $3::text, $4::text::bigint, $5::text::bigint,
  clock_timestamp() + ${ms("$4::text::float8")}, clock_timestamp(), nextval(${t.tokens})
ON CONFLICT (key) DO UPDATE SET state = 1, permits = 1, grant_id = excluded.grant_id, holder = excluded.holder,
  ttl_ms = excluded.ttl_ms, delay_ms = excluded.delay_ms,
  expires = clock_timestamp() + ${ms("excluded.ttl_ms")}, since = clock_timestamp(),
  first = greatest(nextval(${t.tokens}), l.first + l.count, l.raised + 1), count = 1,
  previous = nullif(l.first + l.count - 1, 0), abandoned = l.abandoned OR l.state = 1
WHERE ${free} AND l.first + l.count <= ${MAX} AND l.raised < ${MAX}
RETURNING concat(first, '|', previous, '|', abandoned, '|', ${SYNC})`,
    },
    // args: key, grant. returns a row when the grant was held and nobody waits.
    releaseSole: {
      name: "ringfence_release_sole",
      text: /* sql */ `UPDATE ${t.locks} SET state = 0, grant_id = NULL, holder = NULL, abandoned = false
WHERE key = $1::text AND grant_id = $2::text AND state = 1 AND expires > clock_timestamp()
RETURNING '1'`,
    },
    // args: JSON array of [key, grant, …]. returns the numbers of those that were held and that nobody waits for.
    releaseSoles: {
      name: "ringfence_release_soles",
      text: /* sql */ `WITH want AS MATERIALIZED (${wanted("$1")}),
mine AS MATERIALIZED (SELECT l.key FROM want JOIN ${t.locks} AS l ON l.key = want.key
  WHERE l.grant_id = want.id ORDER BY l.key FOR UPDATE OF l)
UPDATE ${t.locks} AS l SET state = 0, grant_id = NULL, holder = NULL, abandoned = false
FROM want JOIN mine ON mine.key = want.key
WHERE l.key = want.key AND l.grant_id = want.id AND l.state = 1 AND l.expires > clock_timestamp()
RETURNING want.nr::text`,
    },
    // args: JSON array of [key, grant, ttl, delay]. returns the numbers of those renewed. Locked in name order, so that
    // two batches do not wait for each other.
    renewSole: {
      name: "ringfence_renew_sole",
      text: /* sql */ `WITH want AS MATERIALIZED (${wanted("$1")}),
mine AS MATERIALIZED (SELECT l.key FROM want JOIN ${t.locks} AS l ON l.key = want.key
  WHERE l.grant_id = want.id ORDER BY l.key FOR UPDATE OF l)
UPDATE ${t.locks} AS l SET ttl_ms = want.ttl, delay_ms = want.delay,
  expires = greatest(l.expires, clock_timestamp() + ${ms("want.ttl")})
FROM want JOIN mine ON mine.key = want.key
WHERE l.key = want.key AND l.grant_id = want.id AND l.expires > clock_timestamp()
RETURNING concat(want.nr, '|', ${SYNC})`,
    },
  };
}

/** A JSON array of [key, grant, ttl, delay] as rows. */
function wanted(json: string): string {
  return `SELECT w.nr, w.a->>0 AS key, w.a->>1 AS id, (w.a->>2)::bigint AS ttl, (w.a->>3)::bigint AS delay
  FROM json_array_elements(${json}::text::json) WITH ORDINALITY AS w(a, nr)`;
}

function renewSql(t: Tables): Part<"renewShares" | "renewWaiters" | "refresh" | "whyGone"> {
  return {
    // args: JSON array of [key, grant, ttl, delay]. returns the numbers of those renewed.
    renewShares: {
      name: "ringfence_renew_shares",
      text: /* sql */ `WITH want AS MATERIALIZED (${wanted("$1")})
UPDATE ${t.shares} AS s SET ttl_ms = want.ttl, delay_ms = want.delay,
  expires = greatest(s.expires, clock_timestamp() + ${ms("want.ttl")})
FROM want WHERE s.key = want.key AND s.grant_id = want.id AND s.expires > clock_timestamp()
RETURNING concat(want.nr, '|', ${SYNC})`,
    },
    // args: JSON array of [key, grant, …]. returns the numbers of those that wait.
    renewWaiters: {
      name: "ringfence_renew_waiters",
      text: /* sql */ `WITH want AS MATERIALIZED (${wanted("$1")})
UPDATE ${t.waiters} AS w SET until = greatest(clock_timestamp() + ${ms("w.keep_ms")}, w.offered), missed = false
FROM want WHERE w.key = want.key AND w.grant_id = want.id
RETURNING want.nr::text`,
    },
    // args: key, grant, keep near, keep far. For a waiter that has no offer while an exclusive lease runs: it lives.
    // returns `holder's remaining ms|its delay|how many before it|kept for|holder`; nothing when there is more to it.
    refresh: {
      name: "ringfence_refresh",
      text: /* sql */ `WITH n AS MATERIALIZED (SELECT clock_timestamp() AS t),
held AS MATERIALIZED (SELECT l.holder, l.delay_ms, extract(epoch FROM l.expires - n.t) * 1000 AS rest
  FROM ${t.locks} AS l, n WHERE l.key = $1::text AND l.grant_id IS NOT NULL AND l.expires > n.t),
own AS MATERIALIZED (SELECT w.seq, (SELECT count(*) FROM (SELECT 1 FROM ${t.waiters} AS o, n WHERE o.key = $1::text
    AND o.seq < w.seq AND o.until > n.t AND NOT o.missed LIMIT 100) AS b) AS ahead
  FROM ${t.waiters} AS w WHERE w.key = $1::text AND w.grant_id = $2::text AND EXISTS (SELECT 1 FROM held)),
kept AS MATERIALIZED (SELECT own.seq, own.ahead,
  CASE WHEN own.ahead < 3 THEN $3::text::bigint ELSE $4::text::bigint END AS keep FROM own)
UPDATE ${t.waiters} AS w SET keep_ms = kept.keep, until = n.t + ${ms("kept.keep")}, missed = false
FROM kept, held, n WHERE w.key = $1::text AND w.seq = kept.seq AND w.grant_id = $2::text AND w.offered IS NULL
RETURNING concat(held.rest, '|', held.delay_ms, '|', kept.ahead, '|', kept.keep, '|', held.holder)`,
    },
    // args: JSON array of [key, grant, …]. returns `number|what its tombstone says|whether another has the name`.
    whyGone: {
      name: "ringfence_why_gone",
      text: /* sql */ `WITH want AS MATERIALIZED (${wanted("$1")})
SELECT concat(want.nr, '|', t.kind, '|', l.key IS NOT NULL)
FROM want LEFT JOIN ${t.tombs} AS t ON t.key = want.key AND t.grant_id = want.id AND t.until > clock_timestamp()
LEFT JOIN ${t.locks} AS l ON l.key = want.key AND l.grant_id IS NOT NULL AND l.grant_id <> want.id
  AND l.expires > clock_timestamp()`,
    },
  };
}

/** What every transaction of ours begins and ends with. */
function stepSql(t: Tables): Part<"begin" | "makeRow" | "lockRow" | "commit"> {
  return {
    // args: the longest wait for a row, in ms. Who stops between two messages must not keep others waiting for long.
    begin: {
      name: "begin",
      text: /* sql */ `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '2000', true),
  set_config('statement_timeout', '0', true), ${SYNC}`,
    },
    // args: key.
    makeRow: {
      name: "makeRow",
      text: `INSERT INTO ${t.locks} (key) VALUES ($1) ON CONFLICT (key) DO NOTHING`,
    },
    // args: key.
    lockRow: { name: "lockRow", text: `SELECT '1' FROM ${t.locks} WHERE key = $1 FOR UPDATE` },
    commit: { name: "commit", text: "COMMIT" },
  };
}
