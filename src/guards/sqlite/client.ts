/** A statement, as far as the guard uses it. */
export interface SqliteStatement {
  run(...params: unknown[]): { readonly changes: number | bigint };
  all(...params: unknown[]): unknown[];
}

/** An open connection of better-sqlite3, libsql or node:sqlite, as far as the guard uses it. */
export interface SqliteConnection {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  /** better-sqlite3 and libsql: whether a transaction is open. */
  readonly inTransaction?: boolean;
  /** node:sqlite: the same, where it tells. */
  readonly isTransaction?: boolean;
}

const SQLITE_ERROR = 1;
const SQLITE_BUSY = 5;

/** The names that better-sqlite3 and libsql give to what node:sqlite numbers. */
const NAMED: Readonly<Record<string, number>> = {
  SQLITE_ERROR,
  SQLITE_BUSY,
  SQLITE_BUSY_RECOVERY: SQLITE_BUSY,
  SQLITE_BUSY_SNAPSHOT: SQLITE_BUSY,
  SQLITE_BUSY_TIMEOUT: SQLITE_BUSY,
};

/** SQLite's primary result code of an error, whichever client raised it; `null` for another error. */
function resultCode(error: unknown): number | null {
  if (typeof error !== "object" || error === null) return null;
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  // An extended code carries the primary one in its low byte.
  if (typeof errcode === "number") return errcode & 0xff;
  return typeof code === "string" ? (NAMED[code] ?? null) : null;
}

/** Whether another connection was in the way, so that the whole transaction may be tried again. */
export function isBusy(error: unknown): boolean {
  return resultCode(error) === SQLITE_BUSY;
}

/** Whether `BEGIN` was refused because a transaction is open: the one plain error that `BEGIN` has. */
export function isNested(error: unknown): boolean {
  return resultCode(error) === SQLITE_ERROR;
}

/** Whether a transaction is open on the connection; `undefined` where the client does not tell. */
export function transactionOpen(db: SqliteConnection): boolean | undefined {
  return db.inTransaction ?? db.isTransaction;
}

/** A statement of the guard's own on one connection. */
class Prepared {
  readonly #statement: SqliteStatement;
  readonly #lists: boolean;

  constructor(statement: SqliteStatement, lists: boolean) {
    this.#statement = statement;
    this.#lists = lists;
  }

  /** How many rows it changed. */
  run(params: readonly unknown[]): number {
    const { changes } = this.#lists ? this.#statement.run(params) : this.#statement.run(...params);
    return Number(changes);
  }

  all(params: readonly unknown[]): readonly unknown[] {
    return this.#lists ? this.#statement.all(params) : this.#statement.all(...params);
  }
}

/** What is kept for one connection. */
interface Known {
  readonly lists: boolean;
  readonly statements: Map<string, Prepared>;
}

const connections = new WeakMap<SqliteConnection, Known>();

/** A statement that is prepared once per connection: to prepare one costs more than to run it. */
export function prepared(db: SqliteConnection, sql: string): Prepared {
  let known = connections.get(db);
  if (known === undefined) {
    known = { lists: takesLists(db), statements: new Map() };
    connections.set(db, known);
  }
  let statement = known.statements.get(sql);
  if (statement === undefined) {
    statement = new Prepared(db.prepare(sql), known.lists);
    known.statements.set(sql, statement);
  }
  return statement;
}

/**
 * Whether a client takes all values as one list, as libsql and better-sqlite3 do; node:sqlite looks for names in it.
 * libsql makes one of separate values, for a fifth of what a small statement costs.
 */
function takesLists(db: SqliteConnection): boolean {
  try {
    const [row] = db.prepare("SELECT ? AS a, ? AS b").all(["a", "b"]);
    const { a, b } = row as { readonly a?: unknown; readonly b?: unknown };
    return a === "a" && b === "b";
  } catch {
    return false;
  }
}
