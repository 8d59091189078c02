import { InvalidArgumentError } from "../../core/errors.ts";

/** The format that this code reads and writes; a database with a later one is refused. */
export const FORMAT = 1;

/** Quotes an identifier for SQL. @throws InvalidArgumentError for an empty one, or one that SQLite cannot hold */
export function quoteIdentifier(name: unknown, option: string): string {
  if (typeof name !== "string" || name === "" || name.includes("\0"))
    throw new InvalidArgumentError(`Expected \`${option}\` to be a non-empty SQL identifier.`);
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * The statements of one guard table. Tokens go in as bigint and come out as decimal text, since every client takes the
 * one for an integer and none of them answers with it unless told to.
 */
export interface Statements {
  readonly table: string;
  /** Creates the tables where they are missing. No parameters. */
  readonly schema: string;
  /** () → one row where both tables exist. */
  readonly exists: string;
  /** () → format. */
  readonly format: string;
  /** (resource) → token, grantId, scope. */
  readonly entry: string;
  /** (scope) → token. */
  readonly floor: string;
  /** (token, grantId, now, resource, scope, token, token, grantId): changes one row when the claim was installed over an entry. */
  readonly claim: string;
  /** (resource, token, grantId, scope, now): writes the entry, whatever was there. */
  readonly install: string;
  /** (now, resource, token, grantId, scope): changes one row while the pair stands, none otherwise. */
  readonly touch: string;
  /** (scope, token): raises the floor, never lowers it. */
  readonly raise: string;
  /** (before): raises the floors of all entries that were last used before then. */
  readonly raiseOld: string;
  /** (before): deletes those entries. */
  readonly deleteOld: string;
}

/** The statements for one table name. The floors live in a table beside it, with the format under the empty scope. */
export function statementsFor(tableName: string): Statements {
  const table = quoteIdentifier(tableName, "table");
  const floors = quoteIdentifier(`${tableName}_floors`, "table");
  const [asText, floorsAsText] = [tableName, `${tableName}_floors`].map(
    (name) => `'${name.replaceAll("'", "''")}'`,
  );
  return {
    table: tableName,
    schema: /* sql */ `
CREATE TABLE IF NOT EXISTS ${table} (
  resource TEXT NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer'),
  grant_id TEXT NOT NULL,
  scope TEXT NOT NULL,
  used_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ${floors} (
  scope TEXT NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer')
) WITHOUT ROWID;
INSERT OR IGNORE INTO ${floors} (scope, token) VALUES ('', ${FORMAT});
`,
    exists: /* sql */ `
SELECT 1 AS found FROM sqlite_master
WHERE type = 'table' AND name IN (${asText ?? ""}, ${floorsAsText ?? ""})`,
    format: /* sql */ `SELECT CAST(token AS TEXT) AS token FROM ${floors} WHERE scope = ''`,
    entry: /* sql */ `
SELECT CAST(token AS TEXT) AS token, grant_id AS grantId, scope FROM ${table} WHERE resource = ?`,
    floor: /* sql */ `SELECT CAST(token AS TEXT) AS token FROM ${floors} WHERE scope = ?`,
    claim: /* sql */ `
UPDATE ${table} SET token = ?, grant_id = ?, used_at_ms = CAST(? AS INTEGER)
WHERE resource = ? AND scope = ? AND (token < ? OR (token = ? AND grant_id = ?))`,
    install: /* sql */ `
INSERT INTO ${table} (resource, token, grant_id, scope, used_at_ms)
VALUES (?, ?, ?, ?, CAST(? AS INTEGER))
ON CONFLICT (resource) DO UPDATE SET
  token = excluded.token, grant_id = excluded.grant_id, scope = excluded.scope,
  used_at_ms = excluded.used_at_ms`,
    touch: /* sql */ `
UPDATE ${table} SET used_at_ms = CAST(? AS INTEGER)
WHERE resource = ? AND token = ? AND grant_id = ? AND scope = ?`,
    raise: /* sql */ `
INSERT INTO ${floors} (scope, token) VALUES (?, ?)
ON CONFLICT (scope) DO UPDATE SET token = max(token, excluded.token)`,
    raiseOld: /* sql */ `
INSERT INTO ${floors} (scope, token)
SELECT scope, max(token) FROM ${table} WHERE used_at_ms < CAST(? AS INTEGER) GROUP BY scope
ON CONFLICT (scope) DO UPDATE SET token = max(token, excluded.token)`,
    deleteOld: /* sql */ `DELETE FROM ${table} WHERE used_at_ms < CAST(? AS INTEGER)`,
  };
}

/** The SQL that creates a guard's tables, for those who manage their schema themselves (`autoCreate: false`). */
export function sqliteGuardSchema(table = "ringfence_guard"): string {
  return statementsFor(table).schema.trim();
}
