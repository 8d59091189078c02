import { InvalidArgumentError } from "../../core/errors.ts";

/** The format that this code reads and writes; a database with a later one is refused. */
export const FORMAT = 1;

/** An older snapshot would read what a predecessor has overwritten since; see the argument in guard.ts. */
export const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/** Quotes an identifier for SQL. @throws InvalidArgumentError for one that PostgreSQL cannot hold */
export function quoteIdentifier(name: unknown, option: string): string {
  if (
    typeof name !== "string" ||
    name === "" ||
    name.includes("\0") ||
    Buffer.byteLength(name) > 63
  )
    throw new InvalidArgumentError(
      `Expected \`${option}\` to be an SQL identifier of 1 to 63 bytes.`,
    );
  return `"${name.replaceAll('"', '""')}"`;
}

/** Quotes a table name, with its schema before a dot where it has one. */
export function quoteTable(name: unknown, option: string): string {
  const parts = typeof name === "string" ? name.split(".") : [name];
  if (parts.length > 2)
    throw new InvalidArgumentError(`Expected \`${option}\` to be "table" or "schema.table".`);
  return parts.map((part) => quoteIdentifier(part, option)).join(".");
}

/** Quotes a string for SQL. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A text constant that needs no quoting, whatever `standard_conforming_strings` says: strangers choose resources. */
export function constant(text: string): string {
  if (/^[\w.:%|-]*$/.test(text)) return `'${text}'`;
  return `convert_from(decode('${Buffer.from(text).toString("base64")}','base64'),'UTF8')`;
}

/** The statements of one guard table. Tokens travel as decimal text, so that no client's number type matters. */
export interface Statements {
  /** Creates the tables where they are missing; several sessions may do so at once. No parameters. */
  readonly schema: string;
  /** () → format; fails where the tables are missing. */
  readonly format: string;
  /** (resource, token, grant id, scope) → a row when the claim was installed over an entry, none otherwise. */
  readonly claim: string;
  /** The same with its four values put in, as constants. No parameters. */
  readonly claimWith: (constants: readonly string[]) => string;
  /** (resource, token, grant id, scope) → a row when there was no entry; none otherwise. The floor comes after it. */
  readonly insert: string;
  /** (resource, token, grant id, scope, ms) → a row while the pair stands; also bounds the transaction's statements and pauses. */
  readonly verify: string;
  /** The same, without a bound on pauses. */
  readonly verifyOnly: string;
  /** (resource) → token, holder, scope. */
  readonly entry: string;
  /** (resource) → the same; nobody changes the entry before this transaction ends. */
  readonly lock: string;
  /** (scope) → token. */
  readonly floor: string;
  /** (resource, token, grant id, scope): writes the entry, whatever was there. */
  readonly install: string;
  /** (scope, token): raises the floor, never lowers it. */
  readonly raise: string;
  /** (before, in Unix milliseconds) → count: deletes what was last used before then, and raises the floors to it. */
  readonly purge: string;
}

/** Lowers a setting of this transaction to `$5` milliseconds; a lower one, or one set by the user, stays. */
function lowered(setting: string): string {
  const now = `current_setting('${setting}')`;
  return `set_config('${setting}', CASE WHEN ${now} <> '0' AND ${now}::interval < $5::text::bigint * interval '1 ms' THEN ${now} ELSE $5::text END, true)`;
}

const PAIR = "token = $2 AND grant_id = $3 AND scope = $4";
const STAMP = "used_at = clock_timestamp(), used_in = pg_current_xact_id()";

/** The statements for one table name. The floors live in a table beside it, with the format under the empty scope. */
export function statementsFor(tableName: string): Statements {
  const table = quoteTable(tableName, "table");
  const floors = quoteTable(`${tableName}_floors`, "table");
  const verify = /* sql */ `
UPDATE ${table} SET ${STAMP} WHERE resource = $1 AND ${PAIR}
RETURNING ${lowered("statement_timeout")} AS statement`;
  const claimWith = ([resource, token, grant, scope]: readonly string[]): string => /* sql */ `
UPDATE ${table} SET token = ${token}, grant_id = ${grant}, ${STAMP}
WHERE resource = ${resource} AND scope = ${scope} AND (token < ${token} OR (token = ${token} AND grant_id = ${grant}))
RETURNING 1 AS ok`;
  return {
    // used_in: the transaction that claimed or verified last, for the trigger that refuses unguarded writes.
    schema: /* sql */ `
SELECT pg_advisory_xact_lock(hashtextextended(${quoteText(`ringfence ${tableName}`)}, 0));
CREATE TABLE IF NOT EXISTS ${table} (
  resource text NOT NULL PRIMARY KEY,
  token bigint NOT NULL,
  grant_id text NOT NULL,
  scope text NOT NULL,
  used_at timestamptz NOT NULL,
  used_in xid8 NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS ${floors} (
  scope text NOT NULL PRIMARY KEY,
  token bigint NOT NULL
);
INSERT INTO ${floors} (scope, token) VALUES ('', ${FORMAT}) ON CONFLICT DO NOTHING;
`,
    format: /* sql */ `
SELECT f.token::text AS token FROM ${floors} f LEFT JOIN ${table} g ON false WHERE f.scope = ''`,
    claim: claimWith(["$1", "$2", "$3", "$4"]),
    claimWith,
    insert: /* sql */ `
INSERT INTO ${table} (resource, token, grant_id, scope, used_at, used_in)
VALUES ($1::text, $2::text::bigint, $3::text, $4::text, clock_timestamp(), pg_current_xact_id())
ON CONFLICT (resource) DO NOTHING RETURNING 1 AS ok`,
    verify: `${verify}, ${lowered("idle_in_transaction_session_timeout")} AS idle`,
    verifyOnly: verify,
    entry: /* sql */ `
SELECT token::text AS token, grant_id AS holder, scope FROM ${table} WHERE resource = $1::text`,
    lock: /* sql */ `
SELECT token::text AS token, grant_id AS holder, scope FROM ${table} WHERE resource = $1::text FOR UPDATE`,
    floor: /* sql */ `SELECT token::text AS token FROM ${floors} WHERE scope = $1::text`,
    install: /* sql */ `
INSERT INTO ${table} (resource, token, grant_id, scope, used_at, used_in)
VALUES ($1::text, $2::text::bigint, $3::text, $4::text, clock_timestamp(), pg_current_xact_id())
ON CONFLICT (resource) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id,
  scope = excluded.scope, used_at = excluded.used_at, used_in = excluded.used_in`,
    raise: /* sql */ `
INSERT INTO ${floors} AS f (scope, token) VALUES ($1::text, $2::text::bigint)
ON CONFLICT (scope) DO UPDATE SET token = greatest(f.token, excluded.token)`,
    purge: /* sql */ `
WITH old AS (
  DELETE FROM ${table} WHERE used_at < to_timestamp($1::text::double precision / 1000)
  RETURNING scope, token
), raised AS (
  INSERT INTO ${floors} AS f (scope, token) SELECT scope, max(token) FROM old GROUP BY scope
  ON CONFLICT (scope) DO UPDATE SET token = greatest(f.token, excluded.token)
)
SELECT count(*)::int AS count FROM old`,
  };
}

/** The SQL that creates a guard's tables, for those who manage their schema themselves (`autoCreate: false`). */
export function postgresGuardSchema(table = "ringfence_guard"): string {
  return statementsFor(table).schema.trim();
}
