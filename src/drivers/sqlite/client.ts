/**
 * The one way to SQLite: named statements, prepared once, over `node:sqlite`, libsql or better-sqlite3. All three have
 * the same prepare/get/all/run; what differs (integers beyond 2^53, numbered parameters, codes) is kept out of the
 * statements: big numbers are bound as bigint and read as text, and parameters are named. A client that also takes their
 * values as a list gets that: see `bindsInOrder`.
 */
import { DriverError } from "../../core/driver.ts";
import { resultCode } from "./errors.ts";
import { loadLibsql } from "./libsql.ts";

/** What can be bound. Integers beyond 2^53 go in as bigint. */
export type SqliteValue = string | number | bigint | null;

/** A prepared statement of any of the three clients. */
export interface SqliteStatement {
  get(args: Readonly<Record<string, SqliteValue>>): unknown;
  all(args: Readonly<Record<string, SqliteValue>>): readonly unknown[];
  run(args: Readonly<Record<string, SqliteValue>>): { readonly changes: number | bigint };
}

/** A synchronous SQLite connection: `DatabaseSync` of `node:sqlite`, or `Database` of libsql or better-sqlite3. */
export interface SqliteDatabase {
  prepare(text: string): SqliteStatement;
  exec(text: string): unknown;
  close(): unknown;
  /** libsql, better-sqlite3. */
  readonly inTransaction?: boolean;
  /** `node:sqlite` from 22.16 and 24 on. */
  readonly isTransaction?: boolean;
}

declare const row: unique symbol;

/** A statement and its name; the simulator answers by the name. The phantom property carries the rows' type. */
export interface NamedSql<Row = never> {
  readonly name: string;
  readonly text: string;
  readonly [row]?: Row;
}

type Args = Readonly<Record<string, SqliteValue>>;
const NO_ARGS: Args = {};
const BEGIN: NamedSql = { name: "begin", text: "BEGIN IMMEDIATE" };
const COMMIT: NamedSql = { name: "commit", text: "COMMIT" };

/** A statement that is ready to run. */
interface Prepared {
  readonly statement: SqliteStatement;
  /** Names of its values, in the order in which the client wants them; `null` where it looks them up itself. */
  readonly order: readonly string[] | null;
}

/** Runs named statements on one connection, each prepared at its first use. Not shared between threads. */
export class SqliteClient {
  readonly #db: SqliteDatabase;
  readonly #own: boolean;
  readonly #inOrder: boolean;
  readonly #prepared = new Map<string, Prepared>();
  /** Apart: in libsql 0.5, `get` finds nothing the first time after `all` on the same statement found nothing. */
  readonly #listing = new Map<string, Prepared>();

  /** @param own whether the driver made `db`, and so closes it */
  constructor(db: SqliteDatabase, own: boolean) {
    this.#db = db;
    this.#own = own;
    this.#inOrder = bindsInOrder(db);
  }

  /** Whether the user has a transaction open on this connection; `false` also where the client cannot tell. */
  get inTransaction(): boolean {
    return this.#db.inTransaction ?? this.#db.isTransaction ?? false;
  }

  /** Runs a statement that returns no rows; answers how many rows it changed. */
  run(sql: NamedSql, args: Args = NO_ARGS): number {
    const prepared = this.#statement(sql, this.#prepared);
    return Number(prepared.statement.run(bound(prepared, args)).changes);
  }

  get<Row>(sql: NamedSql<Row>, args: Args = NO_ARGS): Row | undefined {
    // better-sqlite3 and libsql say undefined for no row, and so does node:sqlite.
    const prepared = this.#statement(sql, this.#prepared);
    return prepared.statement.get(bound(prepared, args)) as Row | undefined;
  }

  all<Row>(sql: NamedSql<Row>, args: Args = NO_ARGS): readonly Row[] {
    const prepared = this.#statement(sql, this.#listing);
    return prepared.statement.all(bound(prepared, args)) as readonly Row[];
  }

  /** Runs statements that are not worth keeping: schema and settings. */
  exec(text: string): void {
    this.#db.exec(text);
  }

  /** The one value of a setting. */
  pragma(name: string): unknown {
    const found = this.#db.prepare(`PRAGMA ${name}`).get(NO_ARGS) as Record<string, unknown>;
    // The column is not always called like the pragma (busy_timeout answers "timeout"), but it is the first.
    return Object.values(found)[0];
  }

  /**
   * Runs `fn` in a transaction that holds the write lock from its beginning: a deferred one that reads first fails at
   * once (SQLITE_BUSY_SNAPSHOT) when another writer came between.
   */
  transaction<T>(fn: () => T): T {
    this.#begin();
    try {
      const result = fn();
      this.run(COMMIT);
      return result;
    } catch (error) {
      this.#rollback();
      throw error;
    }
  }

  close(): void {
    this.#prepared.clear();
    this.#listing.clear();
    if (this.#own) this.#db.close();
  }

  #statement(sql: NamedSql<unknown>, known: Map<string, Prepared>): Prepared {
    let prepared = known.get(sql.text);
    if (prepared === undefined) {
      const order = this.#inOrder ? namesIn(sql.text) : null;
      prepared = { statement: this.#db.prepare(sql.text), order };
      known.set(sql.text, prepared);
    }
    return prepared;
  }

  #begin(): void {
    try {
      this.run(BEGIN);
    } catch (error) {
      if (resultCode(error) === 1) throw openTransaction(error);
      throw error;
    }
  }

  #rollback(): void {
    try {
      this.#db.exec("ROLLBACK");
    } catch {
      // SQLite rolled back by itself (disk full, I/O error): the first error is the one to tell.
    }
  }
}

/**
 * Whether a client takes the values of a statement as a list, in the order in which their names first appear, as libsql
 * does. There the list is worth having: it looks up each name from outside JavaScript, which for the statement of an
 * acquire takes as long as running it. Asked of the client itself; the other two refuse a list.
 */
function bindsInOrder(db: SqliteDatabase): boolean {
  try {
    const found = db.prepare("SELECT :b AS b, :a AS a, :b AS c").get(asArgs([1, 2]));
    const { a, b, c } = found as Record<string, unknown>;
    return b === 1 && a === 2 && c === 1;
  } catch {
    return false;
  }
}

/** The names of a statement's values, each where it first appears. No statement of ours has a colon in quotes. */
function namesIn(text: string): readonly string[] {
  return [...new Set(Array.from(text.matchAll(/:(\w+)/g), ([, name = ""]) => name))];
}

function bound({ order }: Prepared, args: Args): Args {
  if (order === null) return args;
  const values: SqliteValue[] = [];
  // What is missing is NULL, as it is by name. A loop, for speed: every statement comes through here.
  for (const name of order) values.push(args[name] ?? null);
  return asArgs(values);
}

/** A list where the common type of the clients knows names only. */
function asArgs(values: readonly SqliteValue[]): Args {
  return values as unknown as Args;
}

/** The one plain error of BEGIN: this connection is within a transaction already. */
export function openTransaction(cause?: unknown): DriverError {
  return new DriverError(
    "busy",
    "not-applied",
    "The connection that was handed to sqliteDriver has a transaction open: what is written now could be rolled back. Give the driver a connection of its own",
    { cause },
  );
}

/** Opens a database file. */
export type OpenDatabase = (path: string) => SqliteDatabase;

/** `node:sqlite` where this Node has it (22.13 and later), else libsql. @throws DriverError naming what to install */
export async function loadClient(): Promise<{
  readonly name: string;
  readonly open: OpenDatabase;
}> {
  const builtin = process.getBuiltinModule("node:sqlite") as
    | { readonly DatabaseSync: new (path: string) => SqliteDatabase }
    | undefined;
  if (builtin !== undefined)
    return { name: "node:sqlite", open: (path) => new builtin.DatabaseSync(path) };
  try {
    return { name: "libsql", open: await loadLibsql() };
  } catch (error) {
    throw new DriverError(
      "config",
      "not-applied",
      `This Node (${process.version}) has no built-in SQLite and the package "libsql" cannot be loaded: run \`npm install libsql\`, or use Node 22.13 or later`,
      { cause: error },
    );
  }
}
