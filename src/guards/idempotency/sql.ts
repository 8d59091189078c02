import { InvalidArgumentError } from "../../core/errors.ts";
import type { Dialect, Statement } from "./client.ts";

/** Where keys are, unless told otherwise. */
export const TABLE = "ringfence_idempotency";

/** What is stored under a key. */
export interface Stored {
  readonly request: string;
  readonly state: "pending" | "done";
  readonly response: string | null;
  /** Whether somebody is at it now, as far as the database's clock tells. */
  readonly busy: boolean;
}

/** The statements over one table of one dialect. Times are Unix milliseconds of the database's own clock. */
export interface Statements {
  readonly schema: string;
  /** What is done first, so that a call with the same key which is on its way is met: waits for it, or does not. */
  meet(key: string, wait: boolean): Statement | null;
  /** Changes one row when the key is new. `forMs`: for how long nobody else should take it up. */
  insert(key: string, request: string, attempt: Attempt): Statement;
  read(key: string): Statement;
  /** Changes one row when a pending key whose time is up is now this attempt's. */
  takeOver(key: string, attempt: Attempt): Statement;
  /** Changes one row when the key was pending. */
  finish(key: string, response: string): Statement;
  /** Removes a key that is pending: of one attempt, or whoever's. */
  forget(key: string, attemptId: string | null): Statement;
  /** Removes up to 1,000 keys that were done, or where asked begun, before then. */
  sweep(beforeMs: number, state: "pending" | "done"): Statement;
}

/** One try of a call elsewhere. */
export interface Attempt {
  readonly id: string;
  readonly forMs: number;
}

const NOW: Readonly<Record<Dialect, string>> = {
  postgres: "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
  mysql: "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)",
  sqlite: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
};

/** A number of milliseconds, given as text. */
const MILLISECONDS: Readonly<Record<Dialect, string>> = {
  postgres: "?::text::bigint",
  mysql: "CAST(? AS SIGNED)",
  sqlite: "CAST(? AS INTEGER)",
};

const TYPES: Readonly<Record<Dialect, { readonly key: string; readonly json: string }>> = {
  postgres: { key: "text", json: "text" },
  // Bytes: a collation would take keys for each other that differ in case or in trailing blanks.
  mysql: { key: "VARBINARY(255)", json: "LONGTEXT CHARACTER SET utf8mb4" },
  sqlite: { key: "TEXT", json: "TEXT" },
};

/** @throws InvalidArgumentError for a name that is no plain identifier */
export function checkTable(table: unknown): string {
  if (typeof table === "string" && /^[A-Za-z_]\w{0,62}(\.[A-Za-z_]\w{0,62})?$/.test(table))
    return table;
  throw new InvalidArgumentError('Expected `table` to be a plain name, "table" or "schema.table".');
}

/** The statements for a table in one dialect. */
export function statementsFor(dialect: Dialect, table: string): Statements {
  const now = NOW[dialect];
  const ms = MILLISECONDS[dialect];
  const text = dialect === "postgres" ? "?::text" : "?";
  const ignore = dialect === "mysql" ? "IGNORE " : "";
  const conflict = dialect === "mysql" ? "" : " ON CONFLICT (id) DO NOTHING";
  // Under REPEATABLE READ a plain read of MySQL shows an old snapshot.
  const lock = dialect === "mysql" ? " LOCK IN SHARE MODE" : "";
  return {
    schema: schemaFor(dialect, table),
    meet: (key, wait) => meeting(dialect, table, key, wait),
    insert: (key, request, { id, forMs }) => ({
      text: `INSERT ${ignore}INTO ${table} (id, request, state, attempt, until_ms, changed_ms) VALUES (${text}, ${text}, 'pending', ${text}, ${now} + ${ms}, ${now})${conflict}`,
      values: [key, request, id, forMs.toString()],
    }),
    read: (key) => ({
      text: `SELECT request, state, response, CASE WHEN until_ms > ${now} THEN 1 ELSE 0 END AS busy FROM ${table} WHERE id = ${text}${lock}`,
      values: [key],
    }),
    takeOver: (key, { id, forMs }) => ({
      text: `UPDATE ${table} SET attempt = ${text}, until_ms = ${now} + ${ms}, changed_ms = ${now} WHERE id = ${text} AND state = 'pending' AND until_ms <= ${now}`,
      values: [id, forMs.toString(), key],
    }),
    finish: (key, response) => ({
      text: `UPDATE ${table} SET state = 'done', response = ${text}, changed_ms = ${now} WHERE id = ${text} AND state = 'pending'`,
      values: [response, key],
    }),
    forget: (key, attemptId) => ({
      text: `DELETE FROM ${table} WHERE id = ${text} AND state = 'pending'${attemptId === null ? "" : ` AND attempt = ${text}`}`,
      values: attemptId === null ? [key] : [key, attemptId],
    }),
    sweep: (beforeMs, state) =>
      sweeping(dialect, table, [state, beforeMs.toString()], { text, ms }),
  };
}

function schemaFor(dialect: Dialect, table: string): string {
  const { key, json } = TYPES[dialect];
  const engine = dialect === "mysql" ? " ENGINE = InnoDB" : "";
  const name = table.replace(".", "_");
  const index = dialect === "mysql" ? `,\n  KEY ${name}_changed (state, changed_ms)` : "";
  return `CREATE TABLE IF NOT EXISTS ${table} (
  id ${key} NOT NULL PRIMARY KEY,
  request ${key} NOT NULL,
  state ${key} NOT NULL,
  response ${json},
  attempt ${key} NOT NULL,
  until_ms BIGINT NOT NULL,
  changed_ms BIGINT NOT NULL${index}
)${engine};${dialect === "mysql" ? "" : `\nCREATE INDEX IF NOT EXISTS ${name}_changed ON ${table} (state, changed_ms);`}`;
}

function meeting(dialect: Dialect, table: string, key: string, wait: boolean): Statement | null {
  if (dialect === "postgres")
    return {
      text: `SELECT ${wait ? "pg_advisory_xact_lock" : "pg_try_advisory_xact_lock"}(hashtextextended(?::text, 0))::text AS met`,
      values: [`${table} ${key}`],
    };
  if (dialect === "mysql" && !wait)
    return { text: `SELECT id FROM ${table} WHERE id = ? FOR UPDATE NOWAIT`, values: [key] };
  // SQLite has one writer at a time: whoever is here waited at BEGIN.
  return null;
}

function sweeping(
  dialect: Dialect,
  table: string,
  values: readonly string[],
  { text, ms }: { readonly text: string; readonly ms: string },
): Statement {
  const old = `state = ${text} AND changed_ms < ${ms}`;
  if (dialect === "mysql") return { text: `DELETE FROM ${table} WHERE ${old} LIMIT 1000`, values };
  return {
    text: `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE ${old} LIMIT 1000)`,
    values,
  };
}
