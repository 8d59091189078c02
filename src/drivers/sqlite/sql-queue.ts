/** Statements about waiters and offers. */
import { LIVE, type Part, type Tables } from "./tables.ts";

export function waiterSql({
  waiters,
}: Tables): Part<
  | "waiter"
  | "ahead"
  | "head"
  | "semaphore"
  | "waiters"
  | "queueLength"
  | "join"
  | "heard"
  | "renewWaiter"
  | "leave"
  | "waitsFor"
  | "dropDeadWaiters"
> {
  return {
    // args: key, grant.
    waiter: {
      name: "waiter",
      text: `SELECT seq, grant_id, mode, holder FROM ${waiters} WHERE key = :key AND grant_id = :grant`,
    },
    // args: key, seq, now. returns how many live ones stand before, and how many of them are not shared.
    ahead: {
      name: "ahead",
      text: /* sql */ `SELECT count(*) AS ahead, count(CASE WHEN mode <> 'shared' THEN 1 END) AS barring
FROM ${waiters} WHERE key = :key AND seq < :seq AND ${LIVE}`,
    },
    // args: key, now. returns the oldest live one.
    head: {
      name: "head",
      text: `SELECT seq, grant_id, mode, holder FROM ${waiters} WHERE key = :key AND ${LIVE} ORDER BY seq LIMIT 1`,
    },
    // args: key, now. returns the count that a live waiter for a permit relies on.
    semaphore: {
      name: "semaphore",
      text: `SELECT permits FROM ${waiters} WHERE key = :key AND mode = 'permits' AND ${LIVE} LIMIT 1`,
    },
    // args: key, now. returns live ones in order.
    waiters: {
      name: "waiters",
      text: `SELECT seq, grant_id, mode, holder FROM ${waiters} WHERE key = :key AND ${LIVE} ORDER BY seq`,
    },
    // args: key.
    queueLength: {
      name: "queueLength",
      text: `SELECT count(*) AS n FROM ${waiters} WHERE key = :key`,
    },
    // args: key, grant, host, mode, permits, holder, ttl, keep, until. adds at the end.
    join: {
      name: "join",
      text: /* sql */ `INSERT INTO ${waiters} (key, seq, grant_id, host, mode, permits, holder, ttl_ms, keep_ms, until,
  offered, missed)
SELECT :key, coalesce(max(seq), 0) + 1, :grant, :host, :mode, :permits, :holder, :ttl, :keep, :until, NULL, 0
FROM ${waiters} WHERE key = :key`,
    },
    // args: key, seq, keep, until.
    heard: {
      name: "heard",
      text: `UPDATE ${waiters} SET keep_ms = :keep, until = max(:until, coalesce(offered, 0)), missed = 0
WHERE key = :key AND seq = :seq`,
    },
    // args: key, grant, now. changes one row when it is there.
    renewWaiter: {
      name: "renewWaiter",
      text: `UPDATE ${waiters} SET until = max(:now + keep_ms, coalesce(offered, 0)), missed = 0
WHERE key = :key AND grant_id = :grant`,
    },
    // args: key, grant.
    leave: { name: "leave", text: `DELETE FROM ${waiters} WHERE key = :key AND grant_id = :grant` },
    // args: host. returns whether any entry belongs to that process.
    waitsFor: {
      name: "waitsFor",
      text: `SELECT count(*) AS n FROM (SELECT 1 FROM ${waiters} WHERE host = :host LIMIT 1)`,
    },
    // args: from, to (both inclusive), dead (silent since).
    dropDeadWaiters: {
      name: "dropDeadWaiters",
      text: `DELETE FROM ${waiters} WHERE key >= :from AND key <= :to AND until < :dead`,
    },
  };
}

export function offerSql({
  waiters,
}: Tables): Part<
  "missOffers" | "withdrawOffers" | "offerHead" | "offerShared" | "offersEnd" | "offeredTo"
> {
  const offer = `offered = :now + min(ttl_ms, :longest), until = max(until, :now + min(ttl_ms, :longest))`;
  return {
    // args: key, now, but (a grant id, asking right now).
    missOffers: {
      name: "missOffers",
      text: /* sql */ `UPDATE ${waiters} SET missed = 1, offered = NULL
WHERE key = :key AND offered <= :now AND grant_id <> :but`,
    },
    // args: key.
    withdrawOffers: {
      name: "withdrawOffers",
      text: `UPDATE ${waiters} SET offered = NULL WHERE key = :key AND offered IS NOT NULL`,
    },
    // args: key, now, longest, slots. offers to the first live ones. returns whom to wake.
    offerHead: {
      name: "offerHead",
      text: /* sql */ `UPDATE ${waiters} SET ${offer}
WHERE key = :key AND offered IS NULL AND ${LIVE} AND seq IN
  (SELECT seq FROM ${waiters} WHERE key = :key AND ${LIVE} ORDER BY seq LIMIT :slots)
RETURNING host`,
    },
    // args: key, now, longest. offers to the live shared ones before the first other one. returns whom to wake.
    offerShared: {
      name: "offerShared",
      text: /* sql */ `UPDATE ${waiters} SET ${offer}
WHERE key = :key AND offered IS NULL AND ${LIVE} AND mode = 'shared' AND seq <
  (SELECT coalesce(min(seq), 9e18) FROM ${waiters} WHERE key = :key AND mode <> 'shared' AND ${LIVE})
RETURNING host`,
    },
    // args: key.
    offersEnd: {
      name: "offersEnd",
      text: `SELECT max(offered) AS until FROM ${waiters} WHERE key = :key`,
    },
    // args: host, now. returns the entries of a process whose turn it is.
    offeredTo: {
      name: "offeredTo",
      text: `SELECT grant_id FROM ${waiters} WHERE host = :host AND offered > :now`,
    },
  };
}
