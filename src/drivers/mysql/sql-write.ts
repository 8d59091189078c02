/** Statements of a transaction that has the lock's row. */
import type { StepStatements } from "../sql/lock-step.ts";
import type { Tables } from "./options.ts";
import { END, NOW, us } from "./sql-parts.ts";

export function writeSql(t: Tables): StepStatements {
  return { ...lockSql(t), ...shareSql(t), ...waiterSql(t), ...offerSql(t) };
}

/** A token above everything that was given at this name, or demanded: the row is locked. */
function mint(above: string): string {
  return `GREATEST(first_token + token_count, raised + 1, CAST(${above} AS SIGNED) + 1)`;
}

function lockSql(t: Tables): Pick<StepStatements, "putLock" | "putGrant" | "bury"> {
  return {
    // args: id, state, permits, grant, holder, ttl, delay, ms of lease from now or '' to leave it, raised, abandoned.
    putLock: {
      name: "putLock",
      text: /* sql */ `UPDATE ${t.locks} SET state = $2, permits = $3, grant_id = $4, holder = $5,
  ttl_ms = $6, delay_ms = $7, raised = $9, abandoned = ($10 = 'true'),
  expires = IF($8 = '', expires, ${NOW} + ${us("NULLIF($8, '')")})
WHERE id = $1`,
    },
    // args: id, grant, holder, ttl, delay, tokens, above, state, abandoned. an exclusive grant. returns first and previous.
    putGrant: {
      name: "putGrant",
      text: /* sql */ `UPDATE ${t.locks} SET previous = NULLIF(first_token + token_count - 1, 0),
  first_token = ${mint("$7")}, token_count = $6, state = $8, permits = 1, grant_id = $2, holder = $3,
  ttl_ms = $4, delay_ms = $5, expires = ${NOW} + ${us("$4")}, since = ${NOW}, abandoned = ($9 = 'true')
WHERE id = $1;
SELECT first_token, previous FROM ${t.locks} WHERE id = $1`,
    },
    // args: id, grant, kind, ms. What was revoked stays so.
    bury: {
      name: "bury",
      text: /* sql */ `INSERT INTO ${t.tombs} (id, grant_id, kind, ends) VALUES ($1, $2, $3, ${NOW} + ${us("$4")})
ON DUPLICATE KEY UPDATE kind = IF(kind = 'revoked', kind, $3), ends = GREATEST(ends, ${NOW} + ${us("$4")})`,
    },
  };
}

function shareSql(
  t: Tables,
): Pick<StepStatements, "putShare" | "renewShare" | "cutShare" | "dropShare" | "dropSpent"> {
  const own = "WHERE id = $1 AND grant_id = $2";
  return {
    // args: id, grant, mode, holder, ttl, delay, above, abandoned. returns first and previous. A shared lease has a token, a
    // permit has none.
    putShare: {
      name: "putShare",
      text: /* sql */ `INSERT INTO ${t.shares} (id, grant_id, mode, holder, ttl_ms, delay_ms, expires, since, first_token,
  previous, abandoned)
SELECT $1, $2, $3, $4, $5, $6, ${NOW} + ${us("$5")}, ${NOW}, IF($3 = 'shared', ${mint("$7")}, NULL),
  NULLIF(first_token + token_count - 1, 0), ($8 = 'true') FROM ${t.locks} WHERE id = $1;
UPDATE ${t.locks} AS l JOIN ${t.shares} AS s ON s.id = l.id AND s.grant_id = $2
SET l.first_token = s.first_token, l.token_count = 1 WHERE l.id = $1 AND s.mode = 'shared';
SELECT first_token, previous FROM ${t.shares} ${own}`,
    },
    // args: id, grant, ttl, delay.
    renewShare: {
      name: "renewShare",
      text: /* sql */ `UPDATE ${t.shares} SET ttl_ms = $3, delay_ms = $4,
  expires = GREATEST(expires, ${NOW} + ${us("$3")}) ${own}`,
    },
    // args: id, grant. its lock-delay runs from now.
    cutShare: { name: "cutShare", text: `UPDATE ${t.shares} SET expires = ${NOW} ${own}` },
    // args: id, grant.
    dropShare: { name: "dropShare", text: `DELETE FROM ${t.shares} ${own}` },
    // args: id.
    dropSpent: {
      name: "dropSpent",
      text: `DELETE FROM ${t.shares} WHERE id = $1 AND ${END} <= ${NOW}`,
    },
  };
}

function waiterSql(t: Tables): Pick<StepStatements, "join" | "heard" | "leave" | "forgetDead"> {
  return {
    // args: id, grant, channel, mode, permits, holder, ttl, keep. adds at the end.
    join: {
      name: "join",
      text: /* sql */ `UPDATE ${t.locks} SET arrivals = arrivals + 1 WHERE id = $1;
INSERT INTO ${t.waiters} (id, seq, grant_id, channel, mode, permits, holder, ttl_ms, keep_ms, ends)
SELECT $1, arrivals, $2, $3, $4, $5, $6, $7, $8, ${NOW} + ${us("$8")} FROM ${t.locks} WHERE id = $1`,
    },
    // args: id, grant, keep.
    heard: {
      name: "heard",
      text: /* sql */ `UPDATE ${t.waiters} SET keep_ms = $3, missed = 0,
  ends = GREATEST(${NOW} + ${us("$3")}, COALESCE(offered, 0))
WHERE id = $1 AND grant_id = $2`,
    },
    // args: id, grant.
    leave: { name: "leave", text: `DELETE FROM ${t.waiters} WHERE id = $1 AND grant_id = $2` },
    // args: id. those who have been dead for long.
    forgetDead: {
      name: "forgetDead",
      text: `DELETE FROM ${t.waiters} WHERE id = $1 AND ends < ${NOW} - 60000000`,
    },
  };
}

function offerSql(t: Tables): Pick<StepStatements, "miss" | "withdraw" | "offer"> {
  return {
    // args: id, seq.
    miss: {
      name: "miss",
      text: `UPDATE ${t.waiters} SET missed = 1, offered = NULL WHERE id = $1 AND seq = $2`,
    },
    // args: id.
    withdraw: {
      name: "withdraw",
      text: `UPDATE ${t.waiters} SET offered = NULL WHERE id = $1 AND offered IS NOT NULL`,
    },
    // args: id, seq, ms.
    offer: {
      name: "offer",
      text: /* sql */ `UPDATE ${t.waiters} SET offered = ${NOW} + ${us("$3")},
  ends = GREATEST(ends, ${NOW} + ${us("$3")})
WHERE id = $1 AND seq = $2`,
    },
  };
}
