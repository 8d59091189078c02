/** The tables of the driver, and how a database comes to have them. */
import { DriverError } from "../../core/driver.ts";
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { Connection } from "./connection.ts";
import { sqlState } from "./errors.ts";
import { literal, type PostgresDriverOptions, quoted, type Tables, tablesOf } from "./options.ts";

/** Format of the tables below. Tables of a higher one are refused. */
const FORMAT = 1;

/** Rows change in place all the time: room in each page keeps that cheap, and dead ones are cleared away early. */
const BUSY = "WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)";

/** Statements that any number of processes may run, one after the other. */
function statements(t: Tables): readonly string[] {
  return [
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.meta} (
  id integer PRIMARY KEY CHECK (id = 1),
  format integer NOT NULL
)`,
    // No CACHE: numbers must rise in the order in which sessions ask.
    /* sql */ `CREATE SEQUENCE IF NOT EXISTS ${t.sequence} AS bigint
  MINVALUE 1 MAXVALUE ${MAX_TOKEN} NO CYCLE CACHE 1`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.locks} (
  key text COLLATE "C" PRIMARY KEY,
  state smallint NOT NULL DEFAULT 0,
  permits integer NOT NULL DEFAULT 1,
  grant_id text,
  holder text,
  ttl_ms bigint NOT NULL DEFAULT 0,
  delay_ms bigint NOT NULL DEFAULT 0,
  expires timestamptz NOT NULL DEFAULT '-infinity',
  since timestamptz NOT NULL DEFAULT '-infinity',
  first bigint NOT NULL DEFAULT 0,
  count integer NOT NULL DEFAULT 1,
  raised bigint NOT NULL DEFAULT 0,
  previous bigint,
  abandoned boolean NOT NULL DEFAULT false,
  arrivals bigint NOT NULL DEFAULT 0
) ${BUSY}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.shares} (
  key text COLLATE "C" NOT NULL,
  grant_id text NOT NULL,
  mode text NOT NULL,
  holder text NOT NULL,
  ttl_ms bigint NOT NULL,
  delay_ms bigint NOT NULL,
  expires timestamptz NOT NULL,
  since timestamptz NOT NULL,
  first bigint,
  previous bigint,
  abandoned boolean NOT NULL,
  PRIMARY KEY (key, grant_id)
) ${BUSY}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.waiters} (
  key text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  grant_id text NOT NULL,
  channel text NOT NULL,
  mode text NOT NULL,
  permits integer NOT NULL,
  holder text NOT NULL,
  ttl_ms bigint NOT NULL,
  keep_ms bigint NOT NULL,
  until timestamptz NOT NULL,
  offered timestamptz,
  missed boolean NOT NULL DEFAULT false,
  PRIMARY KEY (key, seq),
  UNIQUE (key, grant_id)
) ${BUSY}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.tombs} (
  key text COLLATE "C" NOT NULL,
  grant_id text NOT NULL,
  kind text NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (key, grant_id)
)`,
    ...advisoryTables(t),
    `INSERT INTO ${t.meta} (id, format) VALUES (1, ${FORMAT}) ON CONFLICT (id) DO NOTHING`,
  ];
}

/** What the driver of advisory locks needs beside the sequence. */
function advisoryTables(t: Tables): readonly string[] {
  return [
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.keys} (
  key bigint PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  last bigint NOT NULL,
  previous bigint
) ${BUSY}`,
    /* sql */ `CREATE TABLE IF NOT EXISTS ${t.holders} (
  key bigint NOT NULL,
  grant_id text NOT NULL,
  mode text NOT NULL,
  holder text NOT NULL,
  pid integer NOT NULL,
  first bigint NOT NULL,
  last bigint NOT NULL,
  since timestamptz NOT NULL,
  revoked boolean NOT NULL DEFAULT false,
  PRIMARY KEY (key, grant_id)
) ${BUSY}`,
  ];
}

/**
 * The statements that make the tables, for whoever applies them by hand (`autoCreate: false`). Safe to run again, also
 * while locks are held. Afterwards a role needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the tables and
 * USAGE and SELECT on the sequence.
 * @throws InvalidArgumentError for a schema or prefix that cannot be a name
 */
export function postgresSchema(
  options: Pick<PostgresDriverOptions, "schema" | "tablePrefix"> = {},
): string {
  const tables = tablesOf(options);
  const first = tables.schema === "public" ? [] : [makeSchema(tables)];
  return `${[...first, ...statements(tables)].join(";\n")};\n`;
}

function makeSchema({ schema }: Tables): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`;
}

/** What is there: `schema|tables`, each `t` or `f`. */
function lookFor(t: Tables): string {
  const there = `EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ${literal(t.schema)})`;
  // Not by to_regclass, which fails where this role may not use the schema.
  const last = `EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = ${literal(t.schema)} AND c.relname = ${literal(`${t.prefix}holders`)})`;
  return `SELECT concat(${there}, '|', ${last})`;
}

/**
 * Sees to it that the tables are there, and of this format. Twenty processes may do it at once: the makers take turns
 * by a lock that ends with their transaction, and each statement allows for what is there.
 * @throws DriverError for tables of a newer format, and for missing ones when `create` is false
 */
export async function ensureSchema(
  connection: Connection,
  tables: Tables,
  create: boolean,
  dueAt: number,
): Promise<void> {
  if (await missing(connection, tables, dueAt)) {
    const name = `${tables.schema}.${tables.prefix}*`;
    if (!create)
      throw config(
        `The database lacks the tables ${name} and \`autoCreate\` is false: apply the statements of \`ringfence schema print\``,
      );
    await make(connection, tables, dueAt);
  }
  const [format] = await formatOf(connection, tables, dueAt);
  if (format === undefined)
    throw config(
      `The table ${tables.meta} has no row that says its format: apply the statements of \`ringfence schema print\``,
    );
  if (Number(format) > FORMAT)
    throw config(
      `The tables of ${tables.meta} have format ${format}, made by a newer ringfence; this one knows ${FORMAT}: update it, or use another \`tablePrefix\``,
    );
}

async function formatOf(
  connection: Connection,
  tables: Tables,
  dueAt: number,
): Promise<readonly string[]> {
  try {
    return await connection.script(`SELECT format::text FROM ${tables.meta} WHERE id = 1`, dueAt);
  } catch (error) {
    if (sqlState(error) !== "42501") throw error;
    throw config(
      `This role may not use the tables ${tables.schema}.${tables.prefix}* (${(error as Error).message}): grant it USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the tables, and USAGE and SELECT on the sequence`,
      error,
    );
  }
}

async function missing(connection: Connection, tables: Tables, dueAt: number): Promise<boolean> {
  const [found] = await connection.script(lookFor(tables), dueAt);
  return found?.endsWith("t") !== true;
}

/** Makes the tables, in one transaction. */
async function make(connection: Connection, tables: Tables, dueAt: number): Promise<void> {
  const [found] = await connection.script(lookFor(tables), dueAt);
  // Even IF NOT EXISTS asks for the right to create schemas.
  const first = found?.startsWith("t") === true ? [] : [makeSchema(tables)];
  const turn = `SELECT pg_advisory_xact_lock(hashtextextended(${literal(`ringfence schema ${tables.schema}`)}, 0))::text`;
  const script = ["SET TRANSACTION READ WRITE", turn, ...first, ...statements(tables)].join(";\n");
  try {
    await connection.script(script, dueAt);
  } catch (error) {
    if (sqlState(error) !== "42501") throw error;
    throw config(
      `This role may not make the tables ${tables.schema}.${tables.prefix}* (${(error as Error).message}): grant CREATE on the schema, or have its owner run \`ringfence schema apply\``,
      error,
    );
  }
}

function config(message: string, cause?: unknown): DriverError {
  return new DriverError("config", "not-applied", message, cause === undefined ? {} : { cause });
}
