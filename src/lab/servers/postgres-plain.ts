/** Locks and guarded rows as people write them by hand in SQL: real statements, and what each of them does. */
import type { Statement } from "../../drivers/sql/statement.ts";
import type { Access, Waiting } from "./postgres-access.ts";
import { idOf } from "./postgres-rows.ts";
import { type Args, arg, type Model, us } from "./postgres-values.ts";

function statement(name: string, text: string): Statement {
  return { name: `lab_${name}`, text };
}

/** By name. Parameters are text, as everywhere here. */
export const PLAIN: Readonly<Record<PlainName, Statement>> = {
  // args: key, owner, ttl. The lease of many an article: `now()` is when the transaction began.
  takeLease: statement(
    "takeLease",
    `INSERT INTO lab_leases AS l (key, owner, token, expires)
VALUES ($1::text, $2::text, 1, now() + $3::text::float8 * interval '1 millisecond')
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = l.token + 1, expires = excluded.expires
WHERE l.expires <= now() RETURNING token::text`,
  ),
  // args: key, owner.
  endLease: statement(
    "endLease",
    `UPDATE lab_leases SET expires = '-infinity' WHERE key = $1::text AND owner = $2::text RETURNING '1'`,
  ),
  // args: key.
  tryAdvisory: statement("tryAdvisory", "SELECT pg_try_advisory_lock($1::text::bigint)::text"),
  unlockAdvisory: statement("unlockAdvisory", "SELECT pg_advisory_unlock($1::text::bigint)::text"),
  pid: statement("pid", "SELECT pg_backend_pid()::text"),
  drawToken: statement("drawToken", "SELECT nextval('lab_tokens')::text"),
  plainBegin: statement("plainBegin", "BEGIN"),
  oldBegin: statement("oldBegin", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
  // args: key.
  readVersion: statement(
    "readVersion",
    "SELECT coalesce(max(ver), 0)::text FROM lab_versions WHERE key = $1::text",
  ),
  // args: key, version, who wrote it.
  addVersion: statement(
    "addVersion",
    "INSERT INTO lab_versions (key, ver, writer) VALUES ($1::text, $2::text::bigint, $3::text)",
  ),
  // args: key. `token|grant` of the guard, unlocked.
  readGuard: statement(
    "readGuard",
    "SELECT concat(token, '|', grant_id) FROM lab_guards WHERE key = $1::text",
  ),
  // args: the same; nobody changes it before the end of this transaction.
  lockGuard: statement(
    "lockGuard",
    "SELECT concat(token, '|', grant_id) FROM lab_guards WHERE key = $1::text FOR UPDATE",
  ),
  // args: key, token, grant.
  setGuard: statement(
    "setGuard",
    `INSERT INTO lab_guards (key, token, grant_id) VALUES ($1::text, $2::text::bigint, $3::text)
ON CONFLICT (key) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id`,
  ),
};

/** The tables and the sequence that they are about, for a server that has none of them yet. */
export const PLAIN_SCHEMA = /* sql */ `
CREATE TABLE lab_leases (key text PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE lab_guards (key text PRIMARY KEY, token bigint NOT NULL, grant_id text NOT NULL);
CREATE TABLE lab_versions (key text NOT NULL, ver bigint NOT NULL, writer text NOT NULL, PRIMARY KEY (key, ver));
CREATE SEQUENCE lab_tokens`;

type PlainName =
  | "takeLease"
  | "endLease"
  | "tryAdvisory"
  | "unlockAdvisory"
  | "pid"
  | "drawToken"
  | "plainBegin"
  | "oldBegin"
  | "readVersion"
  | "addVersion"
  | "readGuard"
  | "lockGuard"
  | "setGuard";

type Rows = Waiting<readonly string[]>;

function* takeLease(at: Access, args: Args): Rows {
  const [key, owner] = [arg(args, 1), arg(args, 2)];
  const { began } = at.tx;
  const row = { key, owner, token: 1n, expires: began + us(args[2]) };
  for (;;) {
    if (yield* at.insert("leases", key, row)) return ["1"];
    const lease = yield* at.lock("leases", key);
    if (lease === undefined) continue;
    if (lease.expires > began) return [];
    const token = lease.token + 1n;
    at.put("leases", key, { ...row, token });
    return [String(token)];
  }
}

function* endLease(at: Access, args: Args): Rows {
  const ended = yield* at.change(
    "leases",
    (row) => row.key === args[0] && row.owner === args[1],
    (row) => ({ ...row, expires: -Infinity }),
  );
  return ended.map(() => "1");
}

function* readVersion(at: Access, args: Args): Rows {
  const found = at.rows("versions", ({ key }) => key === args[0]);
  return [String(Math.max(0, ...found.map(({ ver }) => ver)))];
}

function* addVersion(at: Access, args: Args): Rows {
  const [key, ver, writer] = [arg(args, 1), Number(args[1]), arg(args, 3)];
  yield* at.insert("versions", idOf(key, ver), { key, ver, writer });
  return [];
}

function* readGuard(at: Access, args: Args): Rows {
  const guard = at.get("guards", arg(args, 1));
  return guard === undefined ? [] : [`${guard.token}|${guard.grant_id}`];
}

function* lockGuard(at: Access, args: Args): Rows {
  const key = arg(args, 1);
  if (at.get("guards", key) === undefined) return [];
  const guard = yield* at.lock("guards", key);
  return guard === undefined ? [] : [`${guard.token}|${guard.grant_id}`];
}

function* setGuard(at: Access, args: Args): Rows {
  const key = arg(args, 1);
  const row = { key, token: BigInt(arg(args, 2)), grant_id: arg(args, 3), scope: "" };
  while (!(yield* at.insert("guards", key, row))) {
    if ((yield* at.lock("guards", key)) === undefined) continue;
    at.put("guards", key, row);
    break;
  }
  return [];
}

export const PLAIN_MODEL: Readonly<Record<string, Model>> = {
  takeLease,
  endLease,
  *tryAdvisory(at, args) {
    return [String(at.engine.advisory.take(arg(args, 1), at.tx.owner))];
  },
  *unlockAdvisory(at, args) {
    return [String(at.engine.advisory.give(arg(args, 1), at.tx.owner))];
  },
  *pid(at) {
    return [String(at.tx.owner.pid)];
  },
  *drawToken(at) {
    return [String(at.nextval())];
  },
  readVersion,
  addVersion,
  readGuard,
  lockGuard,
  setGuard,
};
