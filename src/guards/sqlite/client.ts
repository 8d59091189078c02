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

const statements = new WeakMap<SqliteConnection, Map<string, SqliteStatement>>();

/** A statement that is prepared once per connection: to prepare one costs more than to run it. */
export function prepared(db: SqliteConnection, sql: string): SqliteStatement {
  let known = statements.get(db);
  if (known === undefined) {
    known = new Map();
    statements.set(db, known);
  }
  let statement = known.get(sql);
  if (statement === undefined) {
    statement = db.prepare(sql);
    known.set(sql, statement);
  }
  return statement;
}
