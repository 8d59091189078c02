/** Statements about what nobody holds any more. */
import type { Part, Tables } from "./tables.ts";

/** Clean-up in passing, a few hundred keys at a time. */
export function sweepSql({
  meta,
  locks,
  shares,
  waiters,
}: Tables): Part<"sweepTo" | "sweepShares" | "sweepIdle" | "sweepFloor" | "sweepLocks"> {
  const range = "key >= :from AND key <= :to";
  // A counter far ahead (raised on purpose) stays in its row: in the floor it would raise every name.
  const spent = /* sql */ `${range} AND counter <= :ceiling AND (
  (state = 0 AND abandoned = 0 AND freed <= :idle) OR (state = 0 AND freed < :old)
  OR (state = 1 AND expires + delay_ms < :old))`;
  return {
    // args: from, size. returns the last key of the next part; no row at the end of the table.
    sweepTo: {
      name: "sweepTo",
      text: `SELECT key FROM ${locks} WHERE key >= :from ORDER BY key LIMIT 1 OFFSET :size`,
    },
    // args: from, to, now.
    sweepShares: {
      name: "sweepShares",
      text: `DELETE FROM ${shares} WHERE ${range} AND expires + delay_ms <= :now`,
    },
    // args: from, to, now. what had shares or waiters and has none left.
    sweepIdle: {
      name: "sweepIdle",
      text: /* sql */ `UPDATE ${locks} SET state = CASE WHEN grant_id IS NULL THEN 0 ELSE 1 END, freed = :now
WHERE ${range} AND state = 2 AND NOT EXISTS (SELECT 1 FROM ${waiters} AS w WHERE w.key = ${locks}.key)
  AND NOT EXISTS (SELECT 1 FROM ${shares} AS s WHERE s.key = ${locks}.key)`,
    },
    // args: from, to, idle, old, ceiling.
    sweepFloor: {
      name: "sweepFloor",
      text: /* sql */ `UPDATE ${meta} SET floor = max(floor, (SELECT max(counter) FROM ${locks} WHERE ${spent}))
WHERE id = 1 AND EXISTS (SELECT 1 FROM ${locks} WHERE ${spent})`,
    },
    // args: from, to, idle, old, ceiling.
    sweepLocks: { name: "sweepLocks", text: `DELETE FROM ${locks} WHERE ${spent}` },
  };
}

/** What happens to the records of another boot. */
export function bootSql({
  locks,
  shares,
  waiters,
  tombs,
}: Tables): Part<
  | "inUse"
  | "voidLocks"
  | "adoptLocks"
  | "adoptShares"
  | "adoptTombs"
  | "clearShares"
  | "clearWaiters"
  | "clearTombs"
> {
  // The wall-clock end plus one ttl; a wall clock that went back cannot make it longer than two.
  const adopted = ":now + min(max(wall_end + ttl_ms - :wall, 0), 2 * ttl_ms)";
  return {
    // args: none.
    inUse: { name: "inUse", text: `SELECT count(*) AS n FROM ${locks} WHERE state > 0` },
    // args: none. nobody holds anything; those who did never released.
    voidLocks: {
      name: "voidLocks",
      text: /* sql */ `UPDATE ${locks} SET abandoned = CASE WHEN grant_id IS NULL THEN abandoned ELSE 1 END, state = 0,
  grant_id = NULL, holder = NULL, expires = 0, freed = 0`,
    },
    // args: now, wall. every lease is counted on this boot's clock.
    adoptLocks: {
      name: "adoptLocks",
      text: /* sql */ `UPDATE ${locks} SET expires = ${adopted}, freed = :now,
  state = CASE WHEN state = 2 AND EXISTS (SELECT 1 FROM ${shares} AS s WHERE s.key = ${locks}.key) THEN 2
    WHEN grant_id IS NULL THEN 0 ELSE 1 END`,
    },
    // args: now, wall.
    adoptShares: { name: "adoptShares", text: `UPDATE ${shares} SET expires = ${adopted}` },
    // args: until.
    adoptTombs: { name: "adoptTombs", text: `UPDATE ${tombs} SET until = :until` },
    // args: none.
    clearShares: { name: "clearShares", text: `DELETE FROM ${shares}` },
    clearWaiters: { name: "clearWaiters", text: `DELETE FROM ${waiters}` },
    clearTombs: { name: "clearTombs", text: `DELETE FROM ${tombs}` },
  };
}
