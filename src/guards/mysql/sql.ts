import { InvalidArgumentError } from "../../core/errors.ts";

/** The format that this code reads and writes; a database with a later one is refused. */
export const FORMAT = 1;

/** Quotes an identifier for SQL. @throws InvalidArgumentError for one that the database cannot hold */
export function quoteIdentifier(name: unknown, option: string): string {
  if (typeof name !== "string" || !/^[^\0]{1,64}$/.test(name) || name.endsWith(" "))
    throw new InvalidArgumentError(
      `Expected \`${option}\` to be an SQL identifier of 1 to 64 characters.`,
    );
  return `\`${name.replaceAll("`", "``")}\``;
}

/** Quotes a table name, with its database before a dot where it has one. */
function quoteTable(name: unknown, option: string): string {
  const parts = typeof name === "string" ? name.split(".") : [name];
  if (parts.length > 2)
    throw new InvalidArgumentError(`Expected \`${option}\` to be "table" or "database.table".`);
  return parts.map((part) => quoteIdentifier(part, option)).join(".");
}

/** The statements of one guard table. Tokens travel as decimal text, names and ids as bytes. */
export interface Statements {
  /** Each creates one table where it is missing, or its first row. No parameters. */
  readonly schema: readonly string[];
  /** () → format; fails where a table is missing. */
  readonly format: string;
  /** (token, grant id, resource, scope, token, token, grant id): changes one row when the claim was installed over an entry. */
  readonly claim: string;
  /** (resource, token, grant id, scope): fails with a duplicate where there is an entry. The floor comes after it. */
  readonly insert: string;
  /** (resource, token, grant id, scope): changes one row while the pair stands. */
  readonly verify: string;
  /** (resource) → token, holder, scope, as this transaction's snapshot has them. */
  readonly seen: string;
  /** (resource) → the same as of now; nobody changes the entry before this transaction ends. */
  readonly lock: string;
  /** (scope) → token. */
  readonly floor: string;
  /** (resource, token, grant id, scope): writes the entry, whatever was there. */
  readonly install: string;
  /** (scope, token): raises the floor, never lowers it. */
  readonly raise: string;
  /** (before, in Unix milliseconds): raises the floors of all entries that were last used before then, and locks these. */
  readonly raiseOld: string;
  /** (before): deletes those entries. */
  readonly deleteOld: string;
}

const NOW = "UTC_TIMESTAMP(6)";
/** A time in Unix milliseconds, whatever the session's time zone. */
const BEFORE =
  "TIMESTAMPADD(MICROSECOND, CAST(? AS SIGNED) * 1000, TIMESTAMP '1970-01-01 00:00:00')";
const COLUMNS = "CAST(token AS CHAR) AS token, grant_id AS holder, scope";

/** The statements for one table name. The floors live in a table beside it, with the format under the empty scope. */
export function statementsFor(tableName: string): Statements {
  const table = quoteTable(tableName, "table");
  const floors = quoteTable(`${tableName}_floors`, "table");
  const values = `(?, CAST(? AS SIGNED), ?, ?, ${NOW}, 0)`;
  const insert = /* sql */ `INSERT INTO ${table} (resource, token, grant_id, scope, used_at, uses) VALUES ${values}`;
  return {
    // Bytes, since text would be compared without its trailing blanks. `uses` changes with every use, so that a row that
    // was matched also counts as changed.
    schema: [
      /* sql */ `CREATE TABLE IF NOT EXISTS ${table} (
  resource VARBINARY(512) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL,
  grant_id VARBINARY(64) NOT NULL,
  scope VARBINARY(64) NOT NULL,
  used_at DATETIME(6) NOT NULL,
  uses BIGINT NOT NULL
) ENGINE = InnoDB`,
      /* sql */ `CREATE TABLE IF NOT EXISTS ${floors} (
  scope VARBINARY(64) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL
) ENGINE = InnoDB`,
      /* sql */ `INSERT IGNORE INTO ${floors} (scope, token) VALUES ('', ${FORMAT})`,
    ],
    format: /* sql */ `
SELECT CAST(f.token AS CHAR) AS token FROM ${floors} f LEFT JOIN ${table} g ON false WHERE f.scope = ''`,
    claim: /* sql */ `
UPDATE ${table} SET token = CAST(? AS SIGNED), grant_id = ?, used_at = ${NOW}, uses = uses + 1
WHERE resource = ? AND scope = ?
  AND (token < CAST(? AS SIGNED) OR (token = CAST(? AS SIGNED) AND grant_id = ?))`,
    insert,
    verify: /* sql */ `
UPDATE ${table} SET used_at = ${NOW}, uses = uses + 1
WHERE resource = ? AND token = CAST(? AS SIGNED) AND grant_id = ? AND scope = ?`,
    seen: /* sql */ `SELECT ${COLUMNS} FROM ${table} WHERE resource = ?`,
    lock: /* sql */ `SELECT ${COLUMNS} FROM ${table} WHERE resource = ? FOR UPDATE`,
    floor: /* sql */ `SELECT CAST(token AS CHAR) AS token FROM ${floors} WHERE scope = ? LOCK IN SHARE MODE`,
    install: /* sql */ `${insert}
ON DUPLICATE KEY UPDATE token = VALUES(token), grant_id = VALUES(grant_id), scope = VALUES(scope),
  used_at = VALUES(used_at), uses = uses + 1`,
    raise: /* sql */ `
INSERT INTO ${floors} (scope, token) VALUES (?, CAST(? AS SIGNED))
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`,
    raiseOld: /* sql */ `
INSERT INTO ${floors} (scope, token)
SELECT scope, token FROM (
  SELECT scope, token FROM ${table} WHERE used_at < ${BEFORE} FOR UPDATE
) AS old
ON DUPLICATE KEY UPDATE token = GREATEST(${floors}.token, VALUES(token))`,
    deleteOld: /* sql */ `DELETE FROM ${table} WHERE used_at < ${BEFORE}`,
  };
}

/** The SQL that creates a guard's tables, for those who manage their schema themselves (`autoCreate: false`). */
export function mysqlGuardSchema(table = "ringfence_guard"): string {
  return statementsFor(table)
    .schema.map((statement) => `${statement};`)
    .join("\n");
}
