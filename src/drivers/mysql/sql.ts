/**
 * Every statement of the lease table, by name. All parameters are text, put in before a message is sent.
 *
 * `state` of a lock: 0 nothing but counters, 1 one exclusive holder and nothing else, 2 there may be shares, waiters or
 * tombstones. Steps that nobody contends are one statement each, on rows of state 0 and 1 alone. All others run in a
 * transaction that locks the row first and looks afterwards, so that they see whatever came before.
 *
 * No statement tells what it wrote, as RETURNING does elsewhere: a read in the same transaction does, or the one number
 * that LAST_INSERT_ID(number) leaves. In an UPDATE the assignments to the left have been made already, so what depends on
 * an old value comes first.
 */
import type { Tables } from "./options.ts";
import { handOver, takeOffer } from "./sql-hand-off.ts";
import { lookSql } from "./sql-look.ts";
import { MAX, NOW, type Part, type Statements, us } from "./sql-parts.ts";
import { sweepSql } from "./sql-sweep.ts";
import { writeSql } from "./sql-write.ts";

/** Makes the statements for one database and prefix. */
export function statements(t: Tables): Statements {
  const handOff = { handOver: handOver(t), takeOffer: takeOffer(t) };
  const shared = { ...writeSql(t), ...sweepSql(t) };
  return { tables: t, ...soleSql(t), ...handOff, ...listSql(t), ...lookSql(t), ...shared };
}

/** The steps on an exclusive lease that nobody contends. */
function soleSql(t: Tables): Part<"grantIdle" | "releaseSole" | "makeRow" | "lockRow" | "floor"> {
  return {
    // args: id, grant, holder, ttl, delay. changes a row, and leaves the token, when the name is idle and its last lease
    // was given back. The token is the one after the previous: nothing else is left to tell.
    grantIdle: {
      name: "grantIdle",
      text: /* sql */ `UPDATE ${t.locks} SET previous = NULLIF(first_token + token_count - 1, 0),
  first_token = LAST_INSERT_ID(first_token + token_count), token_count = 1, state = 1, permits = 1,
  grant_id = $2, holder = $3, ttl_ms = $4, delay_ms = $5, expires = ${NOW} + ${us("$4")}, since = ${NOW}
WHERE id = $1 AND state = 0 AND abandoned = 0 AND raised < first_token + token_count
  AND first_token + token_count <= ${MAX}`,
    },
    // args: id, grant. changes a row when the grant was held and nobody waits.
    releaseSole: {
      name: "releaseSole",
      text: /* sql */ `UPDATE ${t.locks} SET state = 0, grant_id = NULL, holder = NULL, abandoned = 0
WHERE id = $1 AND grant_id = $2 AND state = 1 AND expires > ${NOW}`,
    },
    // args: id, name. Above the floor, which is kept from rising meanwhile: see the sweep. A row that is there is locked.
    makeRow: {
      name: "makeRow",
      text: /* sql */ `INSERT INTO ${t.locks} (id, name, raised)
SELECT $1, $2, m.forgotten FROM ${t.meta} AS m WHERE m.id = 1 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE permits = ${t.locks}.permits`,
    },
    // args: id.
    lockRow: { name: "lockRow", text: `SELECT 1 FROM ${t.locks} WHERE id = $1 FOR UPDATE` },
    // args: none. the highest number that was forgotten; nobody can make a row until this transaction ends.
    floor: { name: "floor", text: `SELECT forgotten FROM ${t.meta} WHERE id = 1 FOR UPDATE` },
  };
}

/** Statements on many grants at once. The list comes first, in its order: so are the rows locked. */
function listSql(t: Tables): Part<"renew" | "renewed" | "whyGone"> {
  const mine = (table: "locks" | "shares" | "waiters", wanted: string): string =>
    `${wanted} AS w STRAIGHT_JOIN ${t[table]} AS l ON l.id = w.id AND l.grant_id = w.grant_id`;
  const restarted = `l.ttl_ms = w.ttl, l.delay_ms = w.delay,
  l.expires = GREATEST(l.expires, ${NOW} + w.ttl * 1000)`;
  const heard = `l.missed = 0, l.ends = GREATEST(${NOW} + l.keep_ms * 1000, COALESCE(l.offered, 0))`;
  return {
    renew: (table, wanted) =>
      table === "waiters"
        ? `UPDATE ${mine(table, wanted)} SET ${heard}`
        : `UPDATE ${mine(table, wanted)} SET ${restarted} WHERE l.expires > ${NOW}`,
    // returns the numbers of those that stand, in the transaction that renewed them.
    renewed: (table, wanted) =>
      `SELECT w.nr FROM ${mine(table, wanted)}${table === "waiters" ? "" : ` WHERE l.expires > ${NOW}`}`,
    // returns `number, what its tombstone says, whether another has the name`.
    whyGone: (wanted) => /* sql */ `SELECT w.nr, o.kind, l.id IS NOT NULL FROM ${wanted} AS w
LEFT JOIN ${t.tombs} AS o ON o.id = w.id AND o.grant_id = w.grant_id AND o.ends > ${NOW}
LEFT JOIN ${t.locks} AS l ON l.id = w.id AND l.grant_id <> w.grant_id AND l.expires > ${NOW}`,
  };
}
