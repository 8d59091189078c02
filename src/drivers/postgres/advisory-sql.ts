/** Statements on advisory locks of a session. All parameters are text. */
import type { Statement } from "../sql/statement.ts";
import type { Tables } from "./options.ts";
import { MAX, SYNC } from "./sql-parts.ts";

/** Whether the session of a row has the lock of its key: a row whose session has ended is a leftover. */
const HAS_IT = `EXISTS (SELECT 1 FROM pg_locks AS p WHERE p.locktype = 'advisory' AND p.granted AND p.objsubid = 1
  AND p.pid = h.pid AND (p.classid::bigint << 32 | p.objid::bigint) = h.key
  AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`;

export interface AdvisoryStatements {
  readonly tables: Tables;
  readonly exclusive: Statement;
  readonly shared: Statement;
  readonly heartbeat: Statement;
  readonly releaseExclusive: Statement;
  readonly releaseShared: Statement;
  readonly forget: Statement;
  readonly whyGone: Statement;
  readonly revoke: Statement;
  readonly inspect: Statement;
  readonly list: Statement;
}

export function advisoryStatements(t: Tables): AdvisoryStatements {
  return { tables: t, ...takeSql(t), ...keepSql(t), ...readSql(t) };
}

/**
 * args: key, name, grant, mode, holder, tokens, above. Takes the lock if it is free at once, then draws the numbers and
 * writes down who has it. returns `whether it is taken|the numbers' first|the last number before|whether an exclusive
 * holder before never released|who has it, if it is not taken`. Taken without a number: the key belongs to another name.
 */
function take(t: Tables, name: string, lock: string): Statement {
  const block = "$6::text::bigint - 1";
  return {
    name,
    text: /* sql */ `WITH got AS MATERIALIZED (SELECT ${lock}($1::text::bigint) AS ok),
made AS (INSERT INTO ${t.keys} AS n (key, name, last)
  SELECT $1::text::bigint, $2::text, greatest(nextval(${t.tokens}), $7::text::bigint + 1) + ${block} FROM got WHERE ok
  ON CONFLICT (key) DO UPDATE SET previous = n.last,
    last = greatest(nextval(${t.tokens}), n.last + 1, $7::text::bigint + 1) + ${block}
  WHERE n.name = excluded.name RETURNING n.last, n.previous),
dead AS (DELETE FROM ${t.holders} AS h USING made WHERE h.key = $1::text::bigint
  AND ($4::text = 'exclusive' OR NOT ${HAS_IT}) RETURNING h.mode),
put AS (INSERT INTO ${t.holders} (key, grant_id, mode, holder, pid, first, last, since)
  SELECT $1::text::bigint, $3::text, $4::text, $5::text, pg_backend_pid(), made.last - (${block}), made.last,
    clock_timestamp() FROM made RETURNING first)
SELECT concat(got.ok, '|', put.first, '|', made.previous, '|',
  EXISTS (SELECT 1 FROM dead WHERE mode = 'exclusive'), '|', ${SYNC}, '|', CASE WHEN NOT got.ok THEN
  (SELECT h.holder FROM ${t.holders} AS h WHERE h.key = $1::text::bigint AND ${HAS_IT} ORDER BY h.since LIMIT 1) END)
FROM got LEFT JOIN made ON true LEFT JOIN put ON true`,
  };
}

function takeSql(t: Tables): Pick<AdvisoryStatements, "exclusive" | "shared"> {
  return {
    exclusive: take(t, "ringfence_take", "pg_try_advisory_lock"),
    shared: take(t, "ringfence_take_shared", "pg_try_advisory_lock_shared"),
  };
}

function keepSql(
  t: Tables,
): Pick<
  AdvisoryStatements,
  "heartbeat" | "releaseExclusive" | "releaseShared" | "forget" | "whyGone" | "revoke"
> {
  // The row first: whoever gets the lock the moment after must not find it.
  const release = (unlock: string): string => `WITH gone AS (DELETE FROM ${t.holders}
  WHERE key = $1::text::bigint AND grant_id = $2::text RETURNING 1),
raised AS (UPDATE ${t.keys} SET last = greatest(last, least($3::text::bigint, ${MAX})) WHERE key = $1::text::bigint
  AND last < $3::text::bigint RETURNING 1)
SELECT concat(${unlock}($1::text::bigint), (SELECT count(*) FROM gone), (SELECT count(*) FROM raised))`;
  return {
    // args: key. returns `t` while this very session has the lock: that the session answers says nothing of it.
    heartbeat: {
      name: "ringfence_heartbeat",
      text: /* sql */ `SELECT EXISTS (SELECT 1 FROM pg_locks AS p WHERE p.locktype = 'advisory' AND p.granted
  AND p.pid = pg_backend_pid() AND p.objsubid = 1
  AND (p.classid::bigint << 32 | p.objid::bigint) = $1::text::bigint)::text`,
    },
    // args: key, grant, raise to. returns what begins with `t` when the lock was there.
    releaseExclusive: { name: "ringfence_release", text: release("pg_advisory_unlock") },
    releaseShared: {
      name: "ringfence_release_shared",
      text: release("pg_advisory_unlock_shared"),
    },
    // args: grant.
    forget: {
      name: "ringfence_forget",
      text: `DELETE FROM ${t.holders} WHERE grant_id = $1::text AND NOT revoked`,
    },
    // args: key, grant. returns whether it was revoked, and whether another exclusive holder has the name.
    whyGone: {
      name: "ringfence_why_gone_session",
      text: /* sql */ `SELECT concat(EXISTS (SELECT 1 FROM ${t.holders} WHERE key = $1::text::bigint
  AND grant_id = $2::text AND revoked), '|', EXISTS (SELECT 1 FROM ${t.holders} AS h WHERE h.key = $1::text::bigint
  AND h.grant_id <> $2::text AND h.mode = 'exclusive' AND ${HAS_IT}))`,
    },
    // args: key, grant. ends the one session that has this grant and nothing else. returns `t` when there was one.
    revoke: {
      name: "ringfence_revoke",
      text: /* sql */ `WITH h AS MATERIALIZED (UPDATE ${t.holders} AS h SET revoked = true
  WHERE h.key = $1::text::bigint AND h.grant_id = $2::text AND ${HAS_IT} RETURNING h.pid)
SELECT pg_terminate_backend(h.pid, 2000)::text FROM h`,
    },
  };
}

function readSql(t: Tables): Pick<AdvisoryStatements, "inspect" | "list"> {
  return {
    // args: key, name. returns holders whose session has the lock, as JSON.
    inspect: {
      name: "ringfence_inspect_session",
      text: /* sql */ `SELECT coalesce(json_agg(json_build_object('grant', h.grant_id, 'mode', h.mode, 'holder', h.holder,
  'first', h.first::text, 'last', h.last::text, 'since', extract(epoch FROM h.since)::float8 * 1000)
  ORDER BY h.since, h.grant_id), '[]')::text
FROM ${t.holders} AS h JOIN ${t.keys} AS n USING (key)
WHERE h.key = $1::text::bigint AND n.name = $2::text AND ${HAS_IT}`,
    },
    // args: from (inclusive), to, after (exclusive), limit. returns full names in use, in order.
    list: {
      name: "ringfence_list_sessions",
      text: /* sql */ `SELECT n.name FROM ${t.keys} AS n WHERE n.name >= $1::text AND n.name < $2::text AND n.name > $3::text
  AND EXISTS (SELECT 1 FROM ${t.holders} AS h WHERE h.key = n.key AND ${HAS_IT})
ORDER BY n.name LIMIT $4::text::bigint`,
    },
  };
}
