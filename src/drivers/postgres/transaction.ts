/**
 * Locks that live and die with a transaction of the user's: what is done under them is committed with them or not at
 * all, so there is no lease, no clock and no token. They are given back by the end of the transaction and in no other
 * way: a release before the commit, which would let the next one in before our work shows, cannot be asked for.
 */
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../core/errors.ts";
import { encodeName } from "../../core/lock-name.ts";
import { quoted } from "./options.ts";
import { queryOf, saidOf, type UserTransaction, within } from "./transaction-clients.ts";

/** How an advisory lock of a transaction is taken. */
export interface XactOptions {
  /** Keeps the names of applications that share a database apart (default `"default"`). */
  readonly namespace?: string;
  /** Shares the lock with others that share it (default false). */
  readonly shared?: boolean;
  /** False: fails at once with `LockNotAvailableError` instead of waiting (default true). */
  readonly wait?: boolean;
}

/** Which row. */
export interface RowOf {
  /** The table, `"accounts"` or `["billing", "accounts"]`; quoted, so spelled exactly. */
  readonly table: string | readonly [schema: string, table: string];
  /** Columns that make out one row, and their values. */
  readonly where: Readonly<Record<string, string | number | bigint | boolean>>;
}

/** Somebody else has the lock, and the call was not to wait for it. */
export class LockNotAvailableError extends Error {
  override readonly name: string = "LockNotAvailableError";
  readonly code = "ERR_LOCK_NOT_AVAILABLE" as const;
}

/**
 * Runs `body` while the transaction has the advisory lock of a name, and leaves it locked until the transaction ends. The
 * lock is not the driver's: it excludes those who use this function with the same name and namespace, not leases.
 * @throws LockNotAvailableError with `wait: false`, when another transaction has it
 * @throws InvalidArgumentError for what is no transaction
 * @throws UnsupportedError outside READ COMMITTED: an older snapshot reads stale data under a fresh lock
 */
export async function withAdvisoryXact<T>(
  transaction: UserTransaction,
  name: string,
  body: () => Promise<T>,
  options: XactOptions = {},
): Promise<T> {
  const { namespace = "default", shared = false, wait = true } = options;
  const query = await queryOf(transaction);
  const key = keyOfXact(namespace, name);
  const suffix = shared ? "_shared" : "";
  if (wait) {
    // The function gives void, which some libraries cannot read: that would look like a failure of the lock.
    await query(`SELECT pg_advisory_xact_lock${suffix}($1::bigint) IS NOT NULL AS locked`, [key]);
  } else {
    const [row] = await query(
      `SELECT pg_try_advisory_xact_lock${suffix}($1::bigint)::text AS locked`,
      [key],
    );
    if ((row as { locked?: unknown } | undefined)?.locked !== "true") throw notAvailable(name);
  }
  return await body();
}

/**
 * Locks one row until the transaction ends, waiting for whoever has it, and runs `body` with the row as it is then;
 * with `undefined` when there is none, and then nothing is locked.
 * @throws InvalidArgumentError for what is no transaction
 * @throws UnsupportedError outside READ COMMITTED
 */
export async function withRowLock<T>(
  transaction: UserTransaction,
  row: RowOf,
  body: (row: Record<string, unknown> | undefined) => Promise<T>,
): Promise<T> {
  const query = await queryOf(transaction);
  const { text, values } = selecting(row);
  const [found] = await query(`${text} FOR UPDATE`, values);
  return await body(found as Record<string, unknown> | undefined);
}

/**
 * Locks one row without waiting, until the transaction ends. Resolves to the row; to `"busy"` when another has it, and
 * to `undefined` when there is none. `"nowait"` (the default) tells the two apart and uses a savepoint, so that the
 * transaction can go on; `"skip-locked"` costs one statement and calls a row that is not there `"busy"` too.
 * @throws InvalidArgumentError for what is no transaction
 * @throws UnsupportedError outside READ COMMITTED
 */
export async function tryRowLock(
  transaction: UserTransaction,
  row: RowOf,
  options: { readonly how?: "nowait" | "skip-locked" } = {},
): Promise<Record<string, unknown> | "busy" | undefined> {
  const query = await queryOf(transaction);
  const { text, values } = selecting(row);
  if (options.how === "skip-locked") {
    const [found] = await query(`${text} FOR UPDATE SKIP LOCKED`, values);
    return found === undefined ? "busy" : (found as Record<string, unknown>);
  }
  try {
    const [found] = await within(transaction, query, `${text} FOR UPDATE NOWAIT`, values);
    return found as Record<string, unknown> | undefined;
  } catch (error) {
    if (saidOf(error) !== "55P03") throw error;
    return "busy";
  }
}

/** 64 bits of SHA-256, in another space than the keys of leases. */
function keyOfXact(namespace: string, name: string): string {
  const full = `transaction:${encodeName(namespace)}:${encodeName(name)}`;
  return createHash("sha256").update(full).digest().readBigInt64BE(0).toString();
}

function notAvailable(name: string): LockNotAvailableError {
  return new LockNotAvailableError(
    `Another transaction has the lock ${JSON.stringify(name)}, and this call was not to wait.`,
  );
}

function selecting({ table, where }: RowOf): { text: string; values: readonly unknown[] } {
  const columns = Object.entries(where);
  if (columns.length === 0)
    throw new InvalidArgumentError("Expected `where` to name at least one column.");
  const from = typeof table === "string" ? quoted(table) : table.map(quoted).join(".");
  const terms = columns.map(([column], i) => `${quoted(column)} = $${i + 1}`);
  const values = columns.map(([, value]) => (typeof value === "bigint" ? String(value) : value));
  return { text: `SELECT * FROM ${from} WHERE ${terms.join(" AND ")}`, values };
}
