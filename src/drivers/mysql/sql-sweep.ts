/** Statements that clear away what is over. */
import { encoded, type Tables } from "./options.ts";
import { END, NOW, type Part } from "./sql-parts.ts";

const MINUTE = 60_000_000;
const DAY = 24 * 60 * MINUTE;
/** A number so far above the floor was demanded, not counted: its row stays, so that it does not raise every other name's. */
const REACH = 2n ** 40n;

type Swept = "sweepAside" | "idle" | "lockIdle" | "spent" | "settle" | "settled" | "remove";

export function sweepSql(t: Tables): Part<Swept> {
  const spent = `((state = 0 AND (abandoned = 0 OR expires < ${NOW} - ${DAY})
    OR state = 1 AND ${END} < ${NOW} - ${DAY})
  AND since < ${NOW} - ${MINUTE}
  AND GREATEST(first_token + token_count - 1, raised) <= (SELECT m.forgotten + ${REACH} FROM ${t.meta} AS m WHERE m.id = 1))`;
  const none = (table: string): string =>
    `NOT EXISTS (SELECT 1 FROM ${table} AS x WHERE x.id = l.id)`;
  const emptied = `(state = 2 AND ${[t.waiters, t.shares, t.tombs].map(none).join(" AND ")})`;
  const among = (ids: readonly string[]): string => `id IN (${ids.map(encoded).join(", ")})`;
  return {
    // args: none. what is long over.
    sweepAside: {
      name: "sweepAside",
      text: /* sql */ `DELETE FROM ${t.tombs} WHERE ends < ${NOW};
DELETE FROM ${t.shares} WHERE ${END} < ${NOW};
DELETE FROM ${t.waiters} WHERE ends < ${NOW} - ${10 * MINUTE}`,
    },
    // args: none. returns ids of rows that can go, or are simple again.
    idle: {
      name: "idle",
      text: `SELECT l.id FROM ${t.locks} AS l WHERE ${spent} OR ${emptied} LIMIT 1024`,
    },
    // returns ids. Rows that are locked already are in use.
    lockIdle: (ids) =>
      `SELECT id FROM ${t.locks} WHERE ${among(ids)} ORDER BY id FOR UPDATE SKIP LOCKED`,
    // returns `id, highest number` of those that can go. What is locked is as it was seen.
    spent: (ids) =>
      `SELECT id, GREATEST(first_token + token_count - 1, raised) FROM ${t.locks} AS l WHERE ${among(ids)} AND ${spent}`,
    // returns ids of those that are simple again.
    settle: (ids) => `SELECT id FROM ${t.locks} AS l WHERE ${among(ids)} AND ${emptied}`,
    settled: (ids) =>
      `UPDATE ${t.locks} SET state = IF(grant_id IS NULL, 0, 1) WHERE ${among(ids)}`,
    // Rows go once their numbers are below the floor. Whoever makes a row waits for this, and begins above it.
    remove: (ids, floor) => [
      `UPDATE ${t.meta} SET forgotten = GREATEST(forgotten, ${floor.toString()}) WHERE id = 1`,
      `DELETE FROM ${t.locks} WHERE ${among(ids)}`,
    ],
  };
}
