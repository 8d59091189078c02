import { InvalidArgumentError } from "../../core/errors.ts";

/** A connection of `mysql2/promise`, as far as the guard uses it. */
export interface MysqlConnection {
  query(text: string, values?: unknown[]): Promise<[unknown, unknown]>;
}

interface MysqlPoolConnection extends MysqlConnection {
  release(): void;
  destroy(): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool of `mysql2/promise`, as far as the guard uses it. */
export interface MysqlPool {
  getConnection(): Promise<MysqlPoolConnection>;
}

/** The pool's own connection type: what bodies get. */
export type ConnectionOf<P> = P extends { getConnection(): Promise<infer C> } ? C : MysqlConnection;

/** What one statement answered. */
export interface Answer {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** Rows that it returned or matched. */
  readonly count: number;
}

/** A value of a statement; names and ids go as bytes, so that no collation touches them. */
export type Value = string | number | Buffer;

/** Runs one statement. */
export async function query(
  connection: MysqlConnection,
  text: string,
  values: readonly unknown[] = [],
): Promise<Answer> {
  const [answer] = await connection.query(text, [...values]);
  if (Array.isArray(answer)) return { rows: answer as Answer["rows"], count: answer.length };
  return { rows: [], count: (answer as { readonly affectedRows: number }).affectedRows };
}

/** @throws InvalidArgumentError for what is no pool */
export function checkPool(db: unknown): asserts db is MysqlPool {
  // A callback pool has `promise()`, which gives the pool that is meant.
  if (!has(db, "getConnection") || has(db, "promise"))
    throw new InvalidArgumentError(
      "Expected a pool of `mysql2/promise`. Inside a transaction of yours use `verify`.",
    );
}

/** @throws InvalidArgumentError for what cannot be one transaction */
export function checkConnection(tx: unknown): asserts tx is MysqlConnection {
  if (has(tx, "getConnection") || !has(tx, "query"))
    throw new InvalidArgumentError(
      "Expected the connection of one open transaction, of `mysql2/promise`: statements of a pool run on any connection.",
    );
}

function has(value: unknown, method: string): boolean {
  return (
    ((typeof value === "object" && value !== null) || typeof value === "function") &&
    typeof (value as Record<string, unknown>)[method] === "function"
  );
}
