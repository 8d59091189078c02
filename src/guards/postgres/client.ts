import { InvalidArgumentError } from "../../core/errors.ts";
import { type PgClient, type PgPool, pgDatabase, pgSession } from "./pg.ts";
import {
  type PostgresJs,
  type PostgresJsTransaction,
  postgresJsDatabase,
  postgresJsSession,
} from "./postgres-js.ts";

/** What opens transactions: a `Pool` of `pg`, or the `sql` of `postgres`. Not a single connection, which others may share. */
export type PostgresDatabase = PgPool | PostgresJs;

/** A transaction: a client of `pg` on which one is open, or what `sql.begin` hands out. */
export type PostgresTransaction = PgClient | PostgresJsTransaction;

/** What bodies get: the client's own type, with all that it can do. */
export type TransactionOf<D> = D extends {
  connect: { (): Promise<infer C>; (callback: never): unknown };
}
  ? C
  : D extends { connect(): Promise<infer C> }
    ? C
    : D extends {
          begin: { (fn: (tx: infer T) => unknown): unknown; (options: string, fn: never): unknown };
        }
      ? T
      : PostgresTransaction;

/** What one statement answered. */
export interface Answer {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** Rows that it returned or changed. */
  readonly count: number;
  /** The pid that the connection was told at its start, where the client says it: a pooler makes one up. */
  readonly toldPid?: number | undefined;
}

/** One connection, as the guard uses it. */
export interface Session {
  /** Values are text or null: every statement casts what it takes. */
  query(text: string, values?: readonly (string | null)[]): Promise<Answer>;
  /** Whether a transaction is open on it; `undefined` where the client does not tell. */
  open(): boolean | undefined;
  /** Whether the server may end the session of a transaction of the caller's own, and the caller hears of it in order. */
  readonly endsWell: boolean;
}

/** How a transaction begins, and what runs in it. */
export interface Work<T> {
  /** Statements in effect from its first moment on, without parameters: `SET LOCAL ...`. */
  readonly settings: string;
  /** A statement without parameters for the message that begins, where the client sends several in one. */
  readonly first?: string | undefined;
  /** `tx` is what the user's body gets, `first` what became of that statement: `undefined` where it was not sent. */
  body(session: Session, tx: unknown, first?: Promise<Answer>): Promise<T>;
  /** What to throw when the server ended the session, or a statement by a timeout, under `body`, which threw `error`. */
  interrupted(error: unknown): unknown;
  /** The transaction's own failure, as the guard tells it; never for what `body` threw. */
  failed(operation: "begin" | "commit", cause: unknown): unknown;
}

/** What opens transactions, as the guard uses it. */
export interface Database {
  /**
   * Prepares its own COMMIT, and repeats what the server does not know: behind a pooler that changes its sessions, in a
   * transaction that has failed by then, which a COMMIT rolls back without an error.
   */
  readonly preparesCommit: boolean;
  /** One READ COMMITTED transaction: commits when `body` resolves, rolls back and rejects with its error when it does not. */
  transaction<T>(work: Work<T>): Promise<T>;
}

/** @throws InvalidArgumentError for what is neither */
export function databaseOf(db: PostgresDatabase): Database {
  const found: unknown = db;
  if (isPgPool(found)) return pgDatabase(found);
  if (isPostgresJs(found)) return postgresJsDatabase(found);
  throw new InvalidArgumentError(
    "Expected a Pool of `pg` or the `sql` of `postgres`. Inside a transaction of yours use `verify`.",
  );
}

/** @throws InvalidArgumentError for what cannot be one transaction */
export function sessionOf(tx: PostgresTransaction): Session {
  const found: unknown = tx;
  if (isPgPool(found) || isPostgresJs(found))
    throw new InvalidArgumentError(
      "Expected the client of one open transaction: statements of a pool run on any connection.",
    );
  if (has(found, "unsafe")) return postgresJsSession(found as unknown as PostgresJsTransaction);
  if (has(found, "query")) return pgSession(found as unknown as PgClient);
  throw new InvalidArgumentError("Expected a client of `pg`, or a transaction of `postgres`.");
}

function has(value: unknown, method: string): value is Record<string, unknown> {
  return (
    ((typeof value === "object" && value !== null) || typeof value === "function") &&
    typeof (value as Record<string, unknown>)[method] === "function"
  );
}

function isPgPool(db: unknown): db is PgPool {
  return has(db, "connect") && typeof db["totalCount"] === "number";
}

function isPostgresJs(db: unknown): db is PostgresJs {
  return has(db, "begin") && has(db, "unsafe");
}
