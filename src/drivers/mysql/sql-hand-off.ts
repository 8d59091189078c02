/** The two steps of a hand-off, each a transaction in one message. */
import type { Statement } from "../sql/statement.ts";
import type { Tables } from "./options.ts";
import { live, MAX, NOW, us } from "./sql-parts.ts";

/** A moment after the row was locked: every statement that follows is of it. */
const AT = "@ringfence_at";
/** Whether the first change was made: the others follow it or do nothing. */
const DONE = "@ringfence_done";

/** A step that decides on the server. */
export interface AtOnce {
  /** Its statements, in order; all take the same parameters. */
  readonly statements: readonly Statement[];
  /** Which of them, by position, says whether anything was done, by the number of rows that it changed. */
  readonly decides: number;
}

/**
 * The row first, and then the look at what stands beside it: a statement that waits for a row would see the rest as it
 * was before that wait.
 */
function atOnce(t: Tables, name: string, decides: string, then: readonly string[]): AtOnce {
  const first = [`SELECT 1 FROM ${t.locks} WHERE id = $1 FOR UPDATE`, `SET ${AT} = ${NOW}`];
  const texts = [...first, decides, `SET ${DONE} = ROW_COUNT()`, ...then];
  return { statements: texts.map((text) => ({ name, text })), decides: first.length };
}

/** Whether the name is more than one exclusive holder: somebody queues, or a tombstone lasts. */
function busy(t: Tables, others = ""): string {
  return `(EXISTS (SELECT 1 FROM ${t.waiters} AS o WHERE o.id = $1${others})
    OR EXISTS (SELECT 1 FROM ${t.tombs} AS o WHERE o.id = $1 AND o.ends > ${AT}))`;
}

/**
 * args: id, grant, longest offer. Ends an exclusive lease and offers the lock to the head of the queue. Changes nothing
 * when the lease is not held, an older offer is not settled, or the head or a holder beside it is not exclusive. The last
 * statement returns `grant, channel` of whom it was offered to.
 */
export function handOver(t: Tables): AtOnce {
  const alive = live("''", AT);
  const until = `${AT} + ${us("LEAST(ttl_ms, CAST($3 AS SIGNED))")}`;
  return atOnce(
    t,
    "handOver",
    /* sql */ `UPDATE ${t.locks} AS l SET l.state = IF(${busy(t)}, 2, 0), l.grant_id = NULL, l.holder = NULL, l.abandoned = 0
WHERE l.id = $1 AND l.grant_id = $2 AND l.expires > ${AT}
  AND NOT EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.id = $1)
  AND NOT EXISTS (SELECT 1 FROM ${t.waiters} AS o WHERE o.id = $1 AND o.offered IS NOT NULL)
  AND COALESCE((SELECT mode FROM ${t.waiters} WHERE id = $1 AND ${alive} ORDER BY seq LIMIT 1), 'exclusive') = 'exclusive'`,
    [
      /* sql */ `UPDATE ${t.waiters} SET offered = ${until}, ends = GREATEST(ends, ${until})
WHERE id = $1 AND ${DONE} = 1 AND ${alive} ORDER BY seq LIMIT 1`,
      `SELECT grant_id, channel FROM ${t.waiters} WHERE id = $1 AND ${DONE} = 1 AND offered IS NOT NULL`,
    ],
  );
}

/**
 * args: id, grant, holder, ttl, delay, tokens. Makes an exclusive lease of a free lock's offer. Changes nothing when there
 * is more to it than one waiter who has the only offer and nobody before it. The last statement returns the first token,
 * the previous one, and whether its holder vanished.
 */
export function takeOffer(t: Tables): AtOnce {
  return atOnce(
    t,
    "takeOffer",
    /* sql */ `UPDATE ${t.locks} AS l SET l.state = IF(${busy(t, " AND o.grant_id <> $2")}, 2, 1), l.permits = 1,
  l.previous = NULLIF(l.first_token + l.token_count - 1, 0),
  l.first_token = GREATEST(l.first_token + l.token_count, l.raised + 1), l.token_count = $6,
  l.grant_id = $2, l.holder = $3, l.ttl_ms = $4, l.delay_ms = $5, l.expires = ${AT} + ${us("$4")}, l.since = ${AT}
WHERE l.id = $1 AND l.grant_id IS NULL
  AND GREATEST(l.first_token + l.token_count, l.raised + 1) <= ${MAX} - CAST($6 AS SIGNED)
  AND NOT EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.id = $1)
  AND NOT EXISTS (SELECT 1 FROM ${t.tombs} AS o WHERE o.id = $1 AND o.grant_id = $2 AND o.ends > ${AT})
  AND EXISTS (SELECT 1 FROM ${t.waiters} AS w
    WHERE w.id = $1 AND w.grant_id = $2 AND w.mode = 'exclusive' AND w.offered > ${AT}
      AND NOT EXISTS (SELECT 1 FROM ${t.waiters} AS o WHERE o.id = $1 AND o.seq <> w.seq
        AND (o.offered IS NOT NULL OR (o.seq < w.seq AND o.ends > ${AT} AND o.missed = 0))))`,
    [
      `DELETE FROM ${t.waiters} WHERE id = $1 AND grant_id = $2 AND ${DONE} = 1`,
      `SELECT first_token, previous, abandoned FROM ${t.locks} WHERE id = $1 AND ${DONE} = 1`,
    ],
  );
}
