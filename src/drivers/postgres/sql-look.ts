/** Statements that only read. */
import type { Statement } from "../sql/statement.ts";
import type { Tables } from "./options.ts";
import { live, type Part } from "./sql-parts.ts";

/** How many waiters a step sees: no more can be offered anything at once, and whoever comes later is seen by later steps. */
const IN_SIGHT = 64;

/** The milliseconds from `n.t` to a moment. */
function rest(moment: string): string {
  return `extract(epoch FROM ${moment} - n.t)::float8 * 1000`;
}

export function lookSql(t: Tables): Part<"look" | "inspect" | "list"> {
  return { look: look(t), inspect: inspect(t), list: list(t) };
}

/** args: key, grant. returns the `Sight` as JSON. Every time is relative to one reading of the clock. */
function look(t: Tables): Statement {
  const lives = live("n.t", "$2");
  const end = `expires + delay_ms * interval '1 millisecond'`;
  const own = `(SELECT seq FROM ${t.waiters} WHERE key = $1 AND grant_id = $2)`;
  return {
    name: "look",
    text: /* sql */ `WITH n AS MATERIALIZED (SELECT clock_timestamp() AS t),
own AS MATERIALIZED (SELECT coalesce(${own}, 9223372036854775807) AS seq)
SELECT json_build_object(
'lock', (SELECT json_build_object('permits', permits, 'grant', grant_id, 'holder', holder, 'ttl', ttl_ms,
  'delay', delay_ms, 'rest', CASE WHEN grant_id IS NULL THEN 0 ELSE ${rest("expires")} END, 'first', first::text,
  'count', count, 'raised', raised::text, 'previous', previous::text, 'abandoned', abandoned, 'state', state)
  FROM ${t.locks} WHERE key = $1),
'tomb', (SELECT kind FROM ${t.tombs} WHERE key = $1 AND grant_id = $2 AND until > n.t),
'tombs', EXISTS (SELECT 1 FROM ${t.tombs} WHERE key = $1 AND until > n.t),
'share', (SELECT json_build_object('mode', mode, 'rest', ${rest("expires")}, 'ttl', ttl_ms, 'delay', delay_ms,
  'first', first::text, 'previous', previous::text, 'abandoned', abandoned)
  FROM ${t.shares} WHERE key = $1 AND grant_id = $2 AND ${end} > n.t),
'shares', (SELECT json_build_object('shared', count(*) FILTER (WHERE mode = 'shared' AND ${end} > n.t),
  'permits', count(*) FILTER (WHERE mode = 'permits' AND ${end} > n.t),
  'soonest', min(${rest(end)}) FILTER (WHERE ${end} > n.t), 'latest', max(${rest(end)}),
  'living', max(${rest("expires")}), 'spent', count(*) FILTER (WHERE ${end} <= n.t),
  'holder', min(holder) FILTER (WHERE expires > n.t)) FROM ${t.shares} WHERE key = $1),
'waiter', (SELECT json_build_object('seq', seq::float8, 'offered', offered IS NOT NULL) FROM ${t.waiters}
  WHERE key = $1 AND grant_id = $2),
'ahead', (SELECT json_build_array(count(*), count(*) FILTER (WHERE mode <> 'shared')) FROM ${t.waiters}, own
  WHERE key = $1 AND ${t.waiters}.seq < own.seq AND ${lives}),
'semaphore', (SELECT permits FROM ${t.waiters} WHERE key = $1 AND mode = 'permits' AND ${lives} LIMIT 1),
'entries', (SELECT count(*) FROM ${t.waiters} WHERE key = $1),
'offersEnd', (SELECT max(${rest("offered")}) FROM ${t.waiters} WHERE key = $1 AND offered > n.t),
'late', (SELECT coalesce(json_agg(seq::float8), '[]') FROM ${t.waiters}
  WHERE key = $1 AND offered <= n.t AND grant_id <> $2),
'head', (SELECT holder FROM ${t.waiters} WHERE key = $1 AND ${lives} ORDER BY seq LIMIT 1),
'waiters', (SELECT coalesce(json_agg(json_build_object('seq', w.seq::float8, 'grant', w.grant_id, 'mode', w.mode,
  'ttl', w.ttl_ms, 'channel', w.channel, 'offered', w.offered IS NOT NULL) ORDER BY w.seq), '[]')
  FROM (SELECT * FROM ${t.waiters} WHERE key = $1 AND ${lives} ORDER BY seq LIMIT ${IN_SIGHT}) AS w)
)::text FROM n`,
  };
}

/** args: key. returns what people are shown, as JSON. */
function inspect(t: Tables): Statement {
  const epoch = (moment: string): string => `extract(epoch FROM ${moment})::float8 * 1000`;
  const end = `expires + delay_ms * interval '1 millisecond'`;
  return {
    name: "ringfence_inspect",
    text: /* sql */ `WITH n AS MATERIALIZED (SELECT clock_timestamp() AS t)
SELECT json_build_object(
'lock', (SELECT json_build_object('permits', permits, 'grant', grant_id, 'holder', holder, 'first', first::text,
  'last', (first + count - 1)::text, 'rest', ${rest("expires")}, 'end', ${rest(end)}, 'since', ${epoch("since")})
  FROM ${t.locks} WHERE key = $1 AND grant_id IS NOT NULL),
'permits', (SELECT permits FROM ${t.locks} WHERE key = $1),
'shares', (SELECT coalesce(json_agg(json_build_object('grant', grant_id, 'mode', mode, 'holder', holder,
  'first', first::text, 'rest', ${rest("expires")}, 'since', ${epoch("since")}) ORDER BY since, grant_id), '[]')
  FROM ${t.shares} WHERE key = $1 AND expires > n.t),
'quiet', (SELECT max(${rest(end)}) FROM ${t.shares} WHERE key = $1),
'waiters', (SELECT coalesce(json_agg(json_build_object('grant', grant_id, 'holder', holder, 'mode', mode)
  ORDER BY seq), '[]') FROM ${t.waiters} WHERE key = $1 AND ${live("n.t")})
)::text FROM n`,
  };
}

/** args: from (inclusive), to, after (exclusive), limit. returns keys in use, in order. */
function list(t: Tables): Statement {
  return {
    name: "ringfence_list",
    text: /* sql */ `SELECT l.key FROM ${t.locks} AS l
WHERE l.key >= $1::text AND l.key < $2::text AND l.key > $3::text AND l.state > 0 AND (
  (l.grant_id IS NOT NULL AND l.expires > clock_timestamp())
  OR EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.key = l.key AND s.expires > clock_timestamp())
  OR EXISTS (SELECT 1 FROM ${t.waiters} AS w WHERE w.key = l.key AND ${live("clock_timestamp()")}))
ORDER BY l.key LIMIT $4::text::bigint`,
  };
}
