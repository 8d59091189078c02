/** What the statements of the PostgreSQL guard do, by their names. They return rows as JSON. */
import { statementsFor } from "../../guards/postgres/sql.ts";
import type { Access, Waiting } from "./postgres-access.ts";
import type { GuardRow } from "./postgres-rows.ts";
import { type Args, arg, type Model } from "./postgres-values.ts";

type Rows = Waiting<readonly string[]>;

const SQL = statementsFor("ringfence_guard");

/** The texts of those statements, by name. */
export const GUARD_TEXTS: Readonly<Record<string, string>> = {
  guardFormat: SQL.format,
  guardClaim: SQL.claim,
  guardInsert: SQL.insert,
  guardVerify: SQL.verify,
  guardEntry: SQL.entry,
  guardLock: SQL.lock,
  guardFloor: SQL.floor,
};

function pairOf(args: Args): GuardRow {
  const token = BigInt(arg(args, 2));
  return { key: arg(args, 1), token, grant_id: arg(args, 3), scope: arg(args, 4) };
}

function* guardClaim(at: Access, args: Args): Rows {
  const mine = pairOf(args);
  const claimed = yield* at.change(
    "guards",
    (row) =>
      row.key === mine.key &&
      row.scope === mine.scope &&
      (row.token < mine.token || (row.token === mine.token && row.grant_id === mine.grant_id)),
    () => mine,
  );
  return claimed.map(() => '{"ok":1}');
}

function* guardInsert(at: Access, args: Args): Rows {
  const mine = pairOf(args);
  return (yield* at.insert("guards", mine.key, mine)) ? ['{"ok":1}'] : [];
}

function* guardVerify(at: Access, args: Args): Rows {
  const mine = pairOf(args);
  const stands = yield* at.change(
    "guards",
    (row) =>
      row.key === mine.key &&
      row.scope === mine.scope &&
      row.token === mine.token &&
      row.grant_id === mine.grant_id,
    (row) => ({ ...row }),
  );
  const { tx } = at;
  const leftMs = Number(args[4]);
  if (stands.length > 0 && (tx.idleTimeoutMs === 0 || tx.idleTimeoutMs > leftMs))
    tx.idleTimeoutMs = leftMs;
  return stands.map(() => "{}");
}

function shown({ token, grant_id: holder, scope }: GuardRow): string {
  return JSON.stringify({ token: String(token), holder, scope });
}

function* guardEntry(at: Access, args: Args): Rows {
  const row = at.get("guards", arg(args, 1));
  return row === undefined ? [] : [shown(row)];
}

function* guardLock(at: Access, args: Args): Rows {
  const key = arg(args, 1);
  if (at.get("guards", key) === undefined) return [];
  const row = yield* at.lock("guards", key);
  return row === undefined ? [] : [shown(row)];
}

export const GUARD_MODEL: Readonly<Record<string, Model>> = {
  guardClaim,
  guardInsert,
  guardVerify,
  guardEntry,
  guardLock,
  *guardFormat() {
    return ['{"token":"1"}'];
  },
  // Nothing is ever purged here, so no floor is left behind.
  *guardFloor() {
    return [];
  },
  *timeouts() {
    return ['{"lock":"0","statement":"0","idle":"0"}'];
  },
};
