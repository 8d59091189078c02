/** Statements that only read. Each is one statement, so that all of it is of one moment. */
import type { Tables } from "./options.ts";
import { END, live, NOW, type Part, rest } from "./sql-parts.ts";

/** How many waiters a step sees: no more can be offered anything at once, and whoever comes later is seen by later steps. */
const IN_SIGHT = 64;
/** Columns of `look` beside the first, which says what a row is. */
const WIDTH = 12;

/** One part of what `look` returns. */
function row(kind: string, columns: readonly string[], from = ""): string {
  // As text: a column of a union has one type, and numbers of several kinds would become decimals.
  const texts = columns.map((column) => `CONCAT(${column})`);
  const all = [`'${kind}'`, ...texts, ...Array.from({ length: WIDTH }, () => "NULL")];
  return `SELECT ${all.slice(0, WIDTH + 1).join(", ")}${from}`;
}

export function lookSql(t: Tables): Part<"look" | "refresh" | "inspect" | "list"> {
  return {
    // args: id, grant. returns rows of kinds, see `sightOf`.
    look: { name: "look", text: look(t) },
    // args: id, grant. For a waiter that has no offer while an exclusive lease runs. returns `holder's remaining ms, its
    // delay, how many before it, how long it still counts as alive, for how long it was kept, holder`.
    refresh: {
      name: "refresh",
      text: /* sql */ `SELECT ${rest("l.expires")}, l.delay_ms, (SELECT COUNT(*) FROM ${t.waiters} AS o
  WHERE o.id = $1 AND o.seq < w.seq AND o.ends > ${NOW} AND o.missed = 0), ${rest("w.ends")}, w.keep_ms, l.holder
FROM ${t.locks} AS l JOIN ${t.waiters} AS w ON w.id = l.id AND w.grant_id = $2
WHERE l.id = $1 AND l.grant_id IS NOT NULL AND l.expires > ${NOW}
  AND w.offered IS NULL AND w.missed = 0 AND w.ends > ${NOW}`,
    },
    // args: id. returns rows of kinds, see `shownOf`.
    inspect: { name: "inspect", text: inspect(t) },
    // args: from (inclusive), to, after (exclusive), limit. returns names in use, in order.
    list: {
      name: "list",
      text: /* sql */ `SELECT l.name FROM ${t.locks} AS l
WHERE l.name >= CAST($1 AS BINARY) AND l.name < CAST($2 AS BINARY) AND l.name > CAST($3 AS BINARY) AND l.state > 0 AND (
  (l.grant_id IS NOT NULL AND l.expires > ${NOW})
  OR EXISTS (SELECT 1 FROM ${t.shares} AS s WHERE s.id = l.id AND s.expires > ${NOW})
  OR EXISTS (SELECT 1 FROM ${t.waiters} AS w WHERE w.id = l.id AND ${live()}))
ORDER BY l.name LIMIT `,
    },
  };
}

function look(t: Tables): string {
  const name = " WHERE id = $1";
  const lives = live("$2");
  const own = `COALESCE((SELECT seq FROM ${t.waiters} WHERE id = $1 AND grant_id = $2), ~0 >> 1)`;
  const lock = [
    ...["state", "permits", "grant_id", "holder", "ttl_ms", "delay_ms"],
    `IF(grant_id IS NULL, 0, ${rest("expires")})`,
    ...["first_token", "token_count", "raised", "previous", "abandoned"],
  ];
  const tombs = `SELECT 1 FROM ${t.tombs} WHERE id = $1 AND ends > ${NOW}`;
  const tomb = `SELECT kind FROM ${t.tombs} WHERE id = $1 AND grant_id = $2 AND ends > ${NOW}`;
  const share = [
    "mode",
    rest("expires"),
    "ttl_ms",
    "delay_ms",
    "first_token",
    "previous",
    "abandoned",
  ];
  const shares = [
    `SUM(mode = 'shared' AND ${END} > ${NOW})`,
    `SUM(mode = 'permits' AND ${END} > ${NOW})`,
    `MIN(IF(${END} > ${NOW}, ${rest(END)}, NULL))`,
    `MAX(${rest(END)})`,
    `MAX(${rest("expires")})`,
    `SUM(${END} <= ${NOW})`,
    `MIN(IF(expires > ${NOW}, holder, NULL))`,
  ];
  const queue = [
    "COUNT(*)",
    `SUM(seq < ${own} AND ${lives})`,
    `SUM(seq < ${own} AND ${lives} AND mode <> 'shared')`,
    `MIN(IF(mode = 'permits' AND ${lives}, permits, NULL))`,
    `MAX(IF(offered > ${NOW}, ${rest("offered")}, NULL))`,
    "MAX(IF(grant_id = $2, seq, NULL))",
    "MAX(IF(grant_id = $2, offered IS NOT NULL, NULL))",
    `(SELECT holder FROM ${t.waiters} WHERE id = $1 AND ${lives} ORDER BY seq LIMIT 1)`,
  ];
  const waiter = ["seq", "grant_id", "mode", "ttl_ms", "channel", "offered IS NOT NULL"];
  return [
    row("lock", lock, ` FROM ${t.locks}${name}`),
    row("tomb", [`(${tomb})`, `EXISTS (${tombs})`]),
    row("share", share, ` FROM ${t.shares}${name} AND grant_id = $2 AND ${END} > ${NOW}`),
    row("shares", shares, ` FROM ${t.shares}${name}`),
    row("queue", queue, ` FROM ${t.waiters}${name}`),
    row("late", ["seq"], ` FROM ${t.waiters}${name} AND offered <= ${NOW} AND grant_id <> $2`),
    `(${row("waiter", waiter, ` FROM ${t.waiters}${name} AND ${lives} ORDER BY seq LIMIT ${IN_SIGHT}`)})`,
  ].join("\nUNION ALL ");
}

function inspect(t: Tables): string {
  const unix = "since / 1000";
  const lock = [
    ...["permits", "grant_id", "holder", "first_token", "first_token + token_count - 1"],
    ...[rest("expires"), rest(END), unix],
  ];
  const share = ["grant_id", "mode", "holder", "first_token", rest("expires"), unix];
  return [
    row("lock", lock, ` FROM ${t.locks} WHERE id = $1`),
    row("share", share, ` FROM ${t.shares} WHERE id = $1 AND expires > ${NOW}`),
    row("quiet", [`MAX(${rest(END)})`], ` FROM ${t.shares} WHERE id = $1`),
    row(
      "waiter",
      ["seq", "grant_id", "holder", "mode"],
      ` FROM ${t.waiters} WHERE id = $1 AND ${live()}`,
    ),
  ].join("\nUNION ALL ");
}
