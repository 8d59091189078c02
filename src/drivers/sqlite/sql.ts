/**
 * Every statement of the driver, by name. Times are milliseconds of the host's monotonic clock unless called wall;
 * tokens are bound as bigint and read as text, so that no client rounds them. A waiter is *live* while `until` lies
 * ahead and it has not missed an offer.
 */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import { offerSql, waiterSql } from "./sql-queue.ts";
import { bootSql, sweepSql } from "./sql-upkeep.ts";
import { LIVE, type Part, type Statements, type Tables } from "./tables.ts";

/** Makes the statements for one prefix. */
export function statements(prefix: string): Statements {
  const t: Tables = {
    meta: `${prefix}meta`,
    locks: `${prefix}locks`,
    shares: `${prefix}shares`,
    waiters: `${prefix}waiters`,
    tombs: `${prefix}tombs`,
  };
  return {
    prefix,
    ...metaSql(t),
    ...fastSql(t),
    ...lockSql(t),
    ...shareSql(t),
    ...waiterSql(t),
    ...offerSql(t),
    ...tombSql(t),
    ...sweepSql(t),
    ...bootSql(t),
  };
}

const MAX = MAX_TOKEN.toString();
/** A renewal never ends a lease sooner than it would have ended: it may be a late one with a shorter ttl. */
const LONGER = "expires = max(expires, :expires), wall_end = max(wall_end, :wallEnd)";

function metaSql({ meta }: Tables): Part<"meta" | "tables" | "setIdentity"> {
  return {
    // args: none. returns the one row.
    meta: {
      name: "meta",
      text: `SELECT format, boot, clock, CAST(floor AS TEXT) AS floor FROM ${meta} WHERE id = 1`,
    },
    // args: none. returns the meta table's name, if it exists.
    tables: {
      name: "tables",
      text: `SELECT name FROM sqlite_master WHERE type = 'table' AND name = '${meta}'`,
    },
    // args: boot, clock.
    setIdentity: {
      name: "setIdentity",
      text: `UPDATE ${meta} SET boot = :boot, clock = :clock WHERE id = 1`,
    },
  };
}

/** The three steps that nobody contends, each one conditional statement. */
function fastSql({ meta, locks, tombs }: Tables): Part<"grantIdle" | "releaseSole" | "renewSole"> {
  const identity = `EXISTS (SELECT 1 FROM ${meta} WHERE id = 1 AND boot = :boot AND clock = :clock)`;
  return {
    // args: key, grant, holder, ttl, delay, expires, wallEnd, wall, least (no smaller token), more (count - 1), now,
    // boot, clock. returns the grant's first token and what it is told; no row unless the name is new or idle.
    grantIdle: {
      name: "grantIdle",
      text: /* sql */ `INSERT INTO ${locks} AS l (key, state, permits, grant_id, holder, ttl_ms, delay_ms, expires,
  wall_end, since, first, last, counter, previous, abandoned, freed)
SELECT :key, 1, 1, :grant, :holder, :ttl, :delay, :expires, :wallEnd, :wall, m.least, m.least + :more,
  m.least + :more, NULL, 0, 0
FROM (SELECT max(floor + 1, :least) AS least FROM ${meta} WHERE id = 1 AND boot = :boot AND clock = :clock) AS m
WHERE m.least + :more <= ${MAX} AND NOT EXISTS (SELECT 1 FROM ${tombs} WHERE grant_id = :grant AND until > :now)
ON CONFLICT (key) DO UPDATE SET state = 1, permits = 1, grant_id = excluded.grant_id, holder = excluded.holder,
  ttl_ms = excluded.ttl_ms, delay_ms = excluded.delay_ms, expires = excluded.expires, wall_end = excluded.wall_end,
  since = excluded.since, first = max(l.counter + 1, excluded.first),
  last = max(l.counter + 1, excluded.first) + excluded.last - excluded.first,
  counter = max(l.counter + 1, excluded.first) + excluded.last - excluded.first,
  previous = nullif(l.last, 0)
WHERE l.state = 0 AND l.counter + :more < ${MAX}
RETURNING CAST(first AS TEXT) AS first, CAST(previous AS TEXT) AS previous, abandoned`,
    },
    // args: key, grant, now, boot, clock. changes one row when the grant is held and nobody waits.
    releaseSole: {
      name: "releaseSole",
      text: /* sql */ `UPDATE ${locks} SET state = 0, grant_id = NULL, holder = NULL, abandoned = 0, freed = :now
WHERE key = :key AND grant_id = :grant AND state = 1 AND expires > :now AND ${identity}`,
    },
    // args: key, grant, ttl, delay, expires, wallEnd, now, boot, clock. changes one row when the grant is held.
    renewSole: {
      name: "renewSole",
      text: /* sql */ `UPDATE ${locks} SET ttl_ms = :ttl, delay_ms = :delay, ${LONGER}
WHERE key = :key AND grant_id = :grant AND expires > :now AND ${identity}`,
    },
  };
}

function lockSql({ locks, shares, waiters }: Tables): Part<"lock" | "putLock" | "list"> {
  return {
    // args: key.
    lock: {
      name: "lock",
      text: /* sql */ `SELECT state, permits, grant_id, holder, ttl_ms, delay_ms, expires, wall_end, since,
  CAST(first AS TEXT) AS first, CAST(last AS TEXT) AS last, CAST(counter AS TEXT) AS counter,
  CAST(previous AS TEXT) AS previous, abandoned, freed
FROM ${locks} WHERE key = :key`,
    },
    // args: all columns. Written after shares and waiters, which decide the state.
    putLock: {
      name: "putLock",
      text: /* sql */ `INSERT INTO ${locks} (key, state, permits, grant_id, holder, ttl_ms, delay_ms, expires, wall_end,
  since, first, last, counter, previous, abandoned, freed)
VALUES (:key,
  CASE WHEN EXISTS (SELECT 1 FROM ${waiters} WHERE key = :key) OR EXISTS (SELECT 1 FROM ${shares} WHERE key = :key)
    THEN 2 WHEN :grant IS NULL THEN 0 ELSE 1 END,
  :permits, :grant, :holder, :ttl, :delay, :expires, :wallEnd, :since, :first, :last, :counter, :previous,
  :abandoned, :freed)
ON CONFLICT (key) DO UPDATE SET state = excluded.state, permits = excluded.permits, grant_id = excluded.grant_id,
  holder = excluded.holder, ttl_ms = excluded.ttl_ms, delay_ms = excluded.delay_ms, expires = excluded.expires,
  wall_end = excluded.wall_end, since = excluded.since, first = excluded.first, last = excluded.last,
  counter = excluded.counter, previous = excluded.previous, abandoned = excluded.abandoned, freed = excluded.freed`,
    },
    // args: from (inclusive), to, after (exclusive), limit, now. returns keys in use, in order.
    list: {
      name: "list",
      text: /* sql */ `SELECT key FROM ${locks} AS l
WHERE key >= :from AND key < :to AND key > :after AND state > 0 AND (
  (grant_id IS NOT NULL AND expires > :now)
  OR EXISTS (SELECT 1 FROM ${shares} AS s WHERE s.key = l.key AND s.expires > :now)
  OR EXISTS (SELECT 1 FROM ${waiters} AS w WHERE w.key = l.key AND ${LIVE}))
ORDER BY key LIMIT :limit`,
    },
  };
}

function shareSql({
  shares,
}: Tables): Part<
  | "share"
  | "shareSums"
  | "shares"
  | "dropSpentShares"
  | "putShare"
  | "renewShare"
  | "cutShare"
  | "dropShare"
> {
  const columns = `grant_id, mode, holder, ttl_ms, expires, since, CAST(first AS TEXT) AS first,
  CAST(previous AS TEXT) AS previous, abandoned`;
  const one = "key = :key AND grant_id = :grant";
  return {
    // args: key, grant.
    share: { name: "share", text: `SELECT ${columns} FROM ${shares} WHERE ${one}` },
    // args: key, now. returns live ones.
    shares: {
      name: "shares",
      text: `SELECT ${columns} FROM ${shares} WHERE key = :key AND expires > :now ORDER BY since, grant_id`,
    },
    // args: key. returns one row of counts and ends, also of those whose lock-delay runs.
    shareSums: {
      name: "shareSums",
      text: /* sql */ `SELECT count(CASE WHEN mode = 'shared' THEN 1 END) AS shared,
  count(CASE WHEN mode = 'permits' THEN 1 END) AS permits, min(expires + delay_ms) AS soonest,
  max(expires + delay_ms) AS latest, max(expires) AS expires
FROM ${shares} WHERE key = :key`,
    },
    // args: key, now.
    dropSpentShares: {
      name: "dropSpentShares",
      text: `DELETE FROM ${shares} WHERE key = :key AND expires + delay_ms <= :now`,
    },
    // args: all columns.
    putShare: {
      name: "putShare",
      text: /* sql */ `INSERT OR REPLACE INTO ${shares} (key, grant_id, mode, holder, ttl_ms, delay_ms, expires,
  wall_end, since, first, previous, abandoned)
VALUES (:key, :grant, :mode, :holder, :ttl, :delay, :expires, :wallEnd, :since, :first, :previous, :abandoned)`,
    },
    // args: key, grant, ttl, delay, expires, wallEnd, now. changes one row when it is held.
    renewShare: {
      name: "renewShare",
      text: `UPDATE ${shares} SET ttl_ms = :ttl, delay_ms = :delay, ${LONGER}
WHERE ${one} AND expires > :now`,
    },
    // args: key, grant, now.
    cutShare: { name: "cutShare", text: `UPDATE ${shares} SET expires = :now WHERE ${one}` },
    // args: key, grant.
    dropShare: { name: "dropShare", text: `DELETE FROM ${shares} WHERE ${one}` },
  };
}

function tombSql({ tombs }: Tables): Part<"tomb" | "bury" | "dropTombs"> {
  return {
    // args: grant.
    tomb: { name: "tomb", text: `SELECT kind, until FROM ${tombs} WHERE grant_id = :grant` },
    // args: grant, kind, until. never shortens one, and never forgets a revocation.
    bury: {
      name: "bury",
      text: /* sql */ `INSERT INTO ${tombs} (grant_id, kind, until) VALUES (:grant, :kind, :until)
ON CONFLICT (grant_id) DO UPDATE SET until = max(until, excluded.until),
  kind = CASE kind WHEN 'revoked' THEN kind ELSE excluded.kind END`,
    },
    // args: now.
    dropTombs: { name: "dropTombs", text: `DELETE FROM ${tombs} WHERE until <= :now` },
  };
}
