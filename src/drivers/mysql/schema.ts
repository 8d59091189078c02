/** The tables of the driver, and how a database comes to have them. */
import { createHash } from "node:crypto";
import { DriverError } from "../../core/driver.ts";
import { type Connection, rowsOf } from "./connection.ts";
import { numberOf } from "./errors.ts";
import { encoded, type MysqlDriverOptions, quoted, type Tables, tablesOf } from "./options.ts";

/** Format of the tables below. Tables of a higher one are refused. */
const FORMAT = 1;

const NO_DATABASE = 1049;
const NO_TABLE = 1146;
const NOT_PERMITTED: readonly number[] = [1044, 1142, 1143, 1227];
/** How long the makers take turns, in seconds. */
const TURN_S = 10;

/** Bytes, so that no collation says what is equal; a name may be longer than an index can be, so its hash stands for it. */
const ID = "VARBINARY(64) NOT NULL";
const TABLE =
  "ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/** Statements that any number of processes may run, one after the other. The row that says the format comes last. */
function statements(t: Tables): readonly string[] {
  return [
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.locks} (
  id ${ID} PRIMARY KEY,
  name VARBINARY(4096) NOT NULL,
  state TINYINT NOT NULL DEFAULT 0,
  permits INT NOT NULL DEFAULT 1,
  grant_id VARBINARY(64),
  holder TEXT,
  ttl_ms BIGINT NOT NULL DEFAULT 0,
  delay_ms BIGINT NOT NULL DEFAULT 0,
  expires BIGINT NOT NULL DEFAULT 0,
  since BIGINT NOT NULL DEFAULT 0,
  first_token BIGINT NOT NULL DEFAULT 0,
  token_count INT NOT NULL DEFAULT 1,
  raised BIGINT NOT NULL DEFAULT 0,
  previous BIGINT,
  abandoned TINYINT NOT NULL DEFAULT 0,
  arrivals BIGINT NOT NULL DEFAULT 0,
  KEY (name(255))
) ${TABLE}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.shares} (
  id ${ID},
  grant_id ${ID},
  mode VARBINARY(16) NOT NULL,
  holder TEXT NOT NULL,
  ttl_ms BIGINT NOT NULL,
  delay_ms BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  since BIGINT NOT NULL,
  first_token BIGINT,
  previous BIGINT,
  abandoned TINYINT NOT NULL,
  PRIMARY KEY (id, grant_id)
) ${TABLE}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.waiters} (
  id ${ID},
  seq BIGINT NOT NULL,
  grant_id ${ID},
  channel ${ID},
  mode VARBINARY(16) NOT NULL,
  permits INT NOT NULL,
  holder TEXT NOT NULL,
  ttl_ms BIGINT NOT NULL,
  keep_ms BIGINT NOT NULL,
  ends BIGINT NOT NULL,
  offered BIGINT,
  missed TINYINT NOT NULL DEFAULT 0,
  PRIMARY KEY (id, seq),
  UNIQUE KEY (id, grant_id),
  KEY (channel)
) ${TABLE}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.tombs} (
  id ${ID},
  grant_id ${ID},
  kind VARBINARY(16) NOT NULL,
  ends BIGINT NOT NULL,
  PRIMARY KEY (id, grant_id)
) ${TABLE}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.meta} (
  id INT PRIMARY KEY,
  format INT NOT NULL,
  forgotten BIGINT NOT NULL
) ${TABLE}`,
    `INSERT IGNORE INTO ${t.meta} (id, format, forgotten) VALUES (1, ${FORMAT}, 0)`,
  ];
}

/**
 * The statements that make the tables, for whoever applies them by hand (`autoCreate: false`). Safe to run again, also
 * while locks are held. Afterwards a user needs SELECT, INSERT, UPDATE and DELETE on the tables.
 * @throws InvalidArgumentError for a database or prefix that cannot be a name
 */
export function mysqlSchema(
  options: Pick<MysqlDriverOptions, "database" | "tablePrefix"> = {},
): string {
  const tables = tablesOf(options);
  return `${[...makeDatabase(tables), ...statements(tables)].join(";\n")};\n`;
}

function makeDatabase({ database }: Tables): readonly string[] {
  return database === undefined ? [] : [`CREATE DATABASE IF NOT EXISTS ${quoted(database)}`];
}

/**
 * Sees to it that the tables are there, and of this format. Twenty processes may do it at once: the makers take turns by
 * a lock that ends with their session, since a server commits each such statement by itself.
 * @throws DriverError for tables of a newer format, and for missing ones when `create` is false
 */
export async function ensureSchema(
  connection: Connection,
  tables: Tables,
  create: boolean,
  dueAt: number,
): Promise<void> {
  let format = await formatOf(connection, tables, dueAt);
  if (format === null) {
    if (!create)
      throw config(
        `The database lacks the tables ${tables.prefix}* and \`autoCreate\` is false: apply the statements of \`ringfence schema print\``,
      );
    await make(connection, tables, dueAt);
    format = await formatOf(connection, tables, dueAt);
  }
  if (format === null)
    throw config(
      `The table ${tables.meta} has no row that says its format: apply the statements of \`ringfence schema print\``,
    );
  if (format > FORMAT)
    throw config(
      `The tables of ${tables.meta} have format ${format}, made by a newer ringfence; this one knows ${FORMAT}: update it, or use another \`tablePrefix\``,
    );
}

/** `null` where the tables are not, or not all. */
async function formatOf(
  connection: Connection,
  tables: Tables,
  dueAt: number,
): Promise<number | null> {
  try {
    const [found] = await connection.script(
      `SELECT format FROM ${tables.meta} WHERE id = 1`,
      dueAt,
    );
    const [row] = rowsOf(found);
    return row === undefined ? null : Number(row[0]);
  } catch (error) {
    if (numberOf(error) === NO_TABLE || numberOf(error) === NO_DATABASE) return null;
    throw error;
  }
}

async function make(connection: Connection, tables: Tables, dueAt: number): Promise<void> {
  const turn = encoded(
    `ringfence_${createHash("sha256")
      .update(`${tables.database ?? ""} ${tables.prefix}`)
      .digest("hex")
      .slice(0, 40)}`,
  );
  try {
    await connection.script(`SELECT GET_LOCK(${turn}, ${TURN_S})`, dueAt);
    // Whoever had the turn before may have made them.
    if ((await formatOf(connection, tables, dueAt)) === null)
      await connection.script(
        [...(await missingDatabase(connection, tables, dueAt)), ...statements(tables)].join(";\n"),
        dueAt,
      );
    await connection.script(`SELECT RELEASE_LOCK(${turn})`, dueAt);
  } catch (error) {
    if (!NOT_PERMITTED.includes(numberOf(error) ?? 0)) throw error;
    throw config(
      `This user may not make the tables ${tables.prefix}* (${(error as Error).message}): grant CREATE on the database, or have its owner run \`ringfence schema apply\``,
      error,
    );
  }
}

/** Even IF NOT EXISTS asks for the right to make databases. */
async function missingDatabase(
  connection: Connection,
  tables: Tables,
  dueAt: number,
): Promise<readonly string[]> {
  if (tables.database === undefined) return [];
  const [found] = await connection.script(
    `SELECT 1 FROM information_schema.schemata WHERE schema_name = ${encoded(tables.database)}`,
    dueAt,
  );
  return rowsOf(found).length > 0 ? [] : makeDatabase(tables);
}

function config(message: string, cause?: unknown): DriverError {
  return new DriverError("config", "not-applied", message, cause === undefined ? {} : { cause });
}
