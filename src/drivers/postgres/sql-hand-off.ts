/** The two statements of a hand-off. Each runs in a transaction that has the lock's row, in the same message. */
import type { Tables } from "./options.ts";
import { live, MAX, ms, type Part } from "./sql-parts.ts";
import { mint } from "./sql-write.ts";

/** How many shared waiters may be let in at once; the others are by a later step. */
const AT_ONCE = 64;

export function handOffSql(t: Tables): Part<"handOver" | "takeOffer"> {
  return { handOver: handOver(t), takeOffer: takeOffer(t) };
}

/** Whether the name is more than one exclusive holder: somebody queues, other than `except`, or a tombstone lasts. */
function busy(t: Tables, except: string): string {
  return `EXISTS (SELECT 1 FROM ${t.waiters} AS o WHERE o.key = $1${except})
    OR EXISTS (SELECT 1 FROM ${t.tombs} AS o WHERE o.key = $1 AND o.until > n.t)`;
}

/**
 * args: key, grant, longest offer. Ends an exclusive lease and offers the lock to the head of the queue: to one exclusive
 * waiter, or to the shared ones up to the first that is not. returns `released`; nothing, and then it changed nothing,
 * when the lease is not held, an older offer is not settled, or there are permits about.
 */
function handOver(t: Tables): Part<"handOver">["handOver"] {
  return {
    name: "handOver",
    text: /* sql */ `WITH n AS MATERIALIZED (SELECT clock_timestamp() AS t),
seen AS MATERIALIZED (SELECT w.seq, w.grant_id, w.channel, w.mode, least(w.ttl_ms, $3::bigint) AS keep
  FROM ${t.waiters} AS w, n WHERE w.key = $1 AND ${live("n.t")} ORDER BY w.seq LIMIT ${AT_ONCE}),
head AS MATERIALIZED (SELECT s.seq, s.mode FROM seen AS s ORDER BY s.seq LIMIT 1),
turn AS MATERIALIZED (SELECT s.* FROM seen AS s, head WHERE s.seq = head.seq OR (head.mode = 'shared'
  AND NOT EXISTS (SELECT 1 FROM seen AS o WHERE o.mode <> 'shared' AND o.seq <= s.seq))),
freed AS (UPDATE ${t.locks} AS l SET state = CASE WHEN ${busy(t, "")} THEN 2 ELSE 0 END,
  grant_id = NULL, holder = NULL, abandoned = false FROM n
  WHERE l.key = $1 AND l.grant_id = $2 AND l.expires > n.t
    AND NOT EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.key = $1)
    AND NOT EXISTS (SELECT 1 FROM ${t.waiters} AS o WHERE o.key = $1 AND o.offered IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM head WHERE head.mode = 'permits') RETURNING 1),
given AS (UPDATE ${t.waiters} AS w SET offered = n.t + ${ms("turn.keep")},
  until = greatest(w.until, n.t + ${ms("turn.keep")}) FROM turn, n, freed WHERE w.key = $1 AND w.seq = turn.seq)
SELECT concat('released', (SELECT string_agg(pg_notify(turn.channel, turn.grant_id)::text, '') FROM turn)) FROM freed`,
  };
}

/**
 * args: key, grant, holder, ttl, delay, tokens. Makes an exclusive lease of a free lock's offer. returns
 * `granted|first|previous|abandoned`; nothing, and then it changed nothing, when there is more to it than one waiter who
 * has the only offer and nobody before it.
 */
function takeOffer(t: Tables): Part<"takeOffer">["takeOffer"] {
  return {
    name: "takeOffer",
    text: /* sql */ `WITH n AS MATERIALIZED (SELECT clock_timestamp() AS t),
own AS MATERIALIZED (SELECT w.seq FROM ${t.waiters} AS w, n WHERE w.key = $1 AND w.grant_id = $2
  AND w.mode = 'exclusive' AND w.offered > n.t
  AND NOT EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.key = $1)
  AND NOT EXISTS (SELECT 1 FROM ${t.tombs} AS o WHERE o.key = $1 AND o.grant_id = $2 AND o.until > n.t)
  AND NOT EXISTS (SELECT 1 FROM ${t.waiters} AS o WHERE o.key = $1 AND o.seq <> w.seq
    AND (o.offered IS NOT NULL OR (o.seq < w.seq AND o.until > n.t AND NOT o.missed)))),
taken AS (UPDATE ${t.locks} AS l SET state = CASE WHEN ${busy(t, " AND o.seq <> own.seq")} THEN 2 ELSE 1 END,
  permits = 1, grant_id = $2, holder = $3, ttl_ms = $4::bigint, delay_ms = $5::bigint,
  expires = clock_timestamp() + ${ms("$4::float8")}, since = clock_timestamp(),
  previous = nullif(l.first + l.count - 1, 0), first = ${mint(t.tokens, "'0'")}, count = $6::int
  FROM own, n WHERE l.key = $1 AND l.grant_id IS NULL
    AND greatest(l.first + l.count, l.raised + 1) + $6::bigint <= ${MAX}
  RETURNING concat('granted|', l.first, '|', l.previous, '|', l.abandoned) AS told),
gone AS (DELETE FROM ${t.waiters} AS w USING own, taken WHERE w.key = $1 AND w.seq = own.seq)
SELECT told FROM taken`,
  };
}
