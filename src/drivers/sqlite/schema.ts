/** The tables of the driver, and how a file comes to have them. */
import { DriverError } from "../../core/driver.ts";
import type { SqliteClient } from "./client.ts";
import { checkPrefix } from "./options.ts";
import type { MetaRow, Statements } from "./tables.ts";

/** Format of the tables below. A file with a higher one is refused. */
const FORMAT = 1;

/** The tables, in statements that any number of processes may run at once. `prefix` was checked to be an identifier. */
function schema(prefix: string): readonly string[] {
  return [
    /* sql */ `CREATE TABLE IF NOT EXISTS ${prefix}meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  format INTEGER NOT NULL,
  boot TEXT,
  clock TEXT,
  floor INTEGER NOT NULL
)`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${prefix}locks (
  key TEXT PRIMARY KEY,
  state INTEGER NOT NULL,
  permits INTEGER NOT NULL,
  grant_id TEXT,
  holder TEXT,
  ttl_ms REAL NOT NULL,
  delay_ms REAL NOT NULL,
  expires REAL NOT NULL,
  wall_end REAL NOT NULL,
  since REAL NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  counter INTEGER NOT NULL,
  previous INTEGER,
  abandoned INTEGER NOT NULL,
  freed REAL NOT NULL
) WITHOUT ROWID`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${prefix}shares (
  key TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  holder TEXT NOT NULL,
  ttl_ms REAL NOT NULL,
  delay_ms REAL NOT NULL,
  expires REAL NOT NULL,
  wall_end REAL NOT NULL,
  since REAL NOT NULL,
  first INTEGER,
  previous INTEGER,
  abandoned INTEGER NOT NULL,
  PRIMARY KEY (key, grant_id)
) WITHOUT ROWID`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${prefix}waiters (
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  grant_id TEXT NOT NULL,
  host TEXT NOT NULL,
  mode TEXT NOT NULL,
  permits INTEGER NOT NULL,
  holder TEXT NOT NULL,
  ttl_ms REAL NOT NULL,
  keep_ms REAL NOT NULL,
  until REAL NOT NULL,
  offered REAL,
  missed INTEGER NOT NULL,
  PRIMARY KEY (key, seq)
) WITHOUT ROWID`,
    `CREATE UNIQUE INDEX IF NOT EXISTS ${prefix}waiters_grant ON ${prefix}waiters (key, grant_id)`,
    `CREATE INDEX IF NOT EXISTS ${prefix}waiters_host ON ${prefix}waiters (host)`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${prefix}tombs (
  grant_id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  until REAL NOT NULL
) WITHOUT ROWID`,
    `CREATE INDEX IF NOT EXISTS ${prefix}tombs_until ON ${prefix}tombs (until)`,
    `INSERT INTO ${prefix}meta (id, format, floor) VALUES (1, ${FORMAT}, 0) ON CONFLICT (id) DO NOTHING`,
  ];
}

/**
 * The statements that make the tables, for whoever applies them by hand (`autoCreate: false`). Safe to run again.
 * @throws InvalidArgumentError for a prefix that is no identifier
 */
export function sqliteSchema(options: { readonly tablePrefix?: string } = {}): string {
  const { tablePrefix = "ringfence_" } = options;
  checkPrefix(tablePrefix);
  return `${schema(tablePrefix).join(";\n")};\n`;
}

/**
 * Sees to it that the tables are there, and of this format. Twenty processes may do it at once: one transaction makes
 * all or nothing, and each statement allows for what is there.
 * @throws DriverError for tables of a newer format, and for missing ones when `create` is false
 */
export function ensureSchema(
  client: SqliteClient,
  sql: Statements,
  parts: { readonly create: boolean; readonly file: string },
): MetaRow {
  const { create, file } = parts;
  if (client.get(sql.tables) === undefined) {
    if (!create)
      throw new DriverError(
        "config",
        "not-applied",
        `The lock file ${file} lacks the tables ${sql.prefix}* and \`autoCreate\` is false: apply the statements of \`ringfence schema\``,
      );
    client.transaction(() => {
      for (const statement of schema(sql.prefix)) client.exec(statement);
    });
  }
  const meta = client.get(sql.meta);
  if (meta === undefined)
    throw new DriverError(
      "config",
      "not-applied",
      `The lock file ${file} has no format row in ${sql.prefix}meta: apply the statements of \`ringfence schema\``,
    );
  if (meta.format > FORMAT)
    throw new DriverError(
      "config",
      "not-applied",
      `The lock file ${file} has format ${meta.format}, made by a newer ringfence; this one knows ${FORMAT}: update it, or use another file`,
    );
  return meta;
}
