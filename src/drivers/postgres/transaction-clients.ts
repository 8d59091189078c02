/** How statements get into transactions of the libraries that the locks of a transaction know. */
import { InvalidArgumentError, UnsupportedError } from "../../core/errors.ts";
import { sqlState } from "./errors.ts";

/** A transaction that was begun: of `pg`, `postgres` (postgres.js), Kysely, Drizzle or Prisma. */
export type UserTransaction =
  | PgTransaction
  | PostgresJsTransaction
  | KyselyTransaction
  | DrizzleTransaction
  | PrismaTransaction;

/** A `Client` of `pg`, or what `pool.connect()` gives. Never the pool itself, whose statements go to any session. */
export interface PgTransaction {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** What `sql.begin` calls its function with. */
export interface PostgresJsTransaction {
  unsafe(text: string, args: never[]): PromiseLike<readonly unknown[]>;
  savepoint(...args: never[]): unknown;
}

/** What `db.transaction().execute` calls its function with. */
export interface KyselyTransaction {
  readonly isTransaction: boolean;
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>;
}

/** What `db.transaction` of Drizzle calls its function with, over `pg` or `postgres`. */
export interface DrizzleTransaction {
  execute(query: never): PromiseLike<unknown>;
  transaction(body: never): Promise<unknown>;
  rollback(): never;
}

/** What `prisma.$transaction` calls its function with. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>;
}

/** Sends one statement. Resolves to its rows. */
export type Query = (text: string, values: readonly unknown[]) => Promise<readonly unknown[]>;

/** One statement in a savepoint: if it fails, the transaction can go on. */
export async function within(
  transaction: UserTransaction,
  query: Query,
  text: string,
  values: readonly unknown[],
): Promise<readonly unknown[]> {
  if (!isPrisma(transaction) && "execute" in transaction) {
    const run = async (inner: DrizzleTransaction): Promise<readonly unknown[]> =>
      executed(inner, text, values);
    return (await transaction.transaction(run as never)) as readonly unknown[];
  }
  // This library fails the whole transaction for a statement that failed outside a savepoint of its own making.
  if (!isPrisma(transaction) && "savepoint" in transaction) {
    const run = async (inner: PostgresJsTransaction): Promise<readonly unknown[]> =>
      inner.unsafe(text, values as never[]);
    return (await transaction.savepoint(run as never)) as readonly unknown[];
  }
  await query("SAVEPOINT ringfence_try", []);
  try {
    const rows = await query(text, values);
    await query("RELEASE SAVEPOINT ringfence_try", []);
    return rows;
  } catch (error) {
    await query("ROLLBACK TO SAVEPOINT ringfence_try", []);
    await query("RELEASE SAVEPOINT ringfence_try", []);
    throw error;
  }
}

/** Parts of errors that wrap what the server said: Drizzle's, and Prisma's over its adapter. */
interface Wrapping {
  readonly cause?: unknown;
  readonly meta?: {
    readonly driverAdapterError?: { readonly cause?: { readonly originalCode?: unknown } };
  };
}

/** The SQLSTATE of what a library threw for a statement that failed; `undefined` where it does not tell. */
export function saidOf(error: unknown): string | undefined {
  const { cause, meta } = error as Wrapping;
  const code = meta?.driverAdapterError?.cause?.originalCode;
  return sqlState(error) ?? sqlState(cause) ?? (typeof code === "string" ? code : undefined);
}

/** A lock is taken at once, but an older snapshot goes on reading what was there before the last holder committed. */
async function refuseOldSnapshot(query: Query): Promise<void> {
  const [row] = await query("SELECT current_setting('transaction_isolation') AS level", []);
  const { level } = row as { readonly level: string };
  if (level !== "read committed")
    throw new UnsupportedError(
      `Expected a READ COMMITTED transaction, this one is ${level.toUpperCase()}: under the lock it would read what was there before the last holder committed.`,
    );
}

/** How statements get into the transaction, which is one and has the right level. */
export async function queryOf(transaction: UserTransaction): Promise<Query> {
  const query = sendingTo(transaction);
  // The transactions of these are objects of their own, which their databases are not.
  if (!isPrisma(transaction) && ("execute" in transaction || !("query" in transaction))) {
    await refuseOldSnapshot(query);
    return query;
  }
  try {
    // Only a transaction block has savepoints. Outside one the lock would be gone with the statement that took it.
    await query("SAVEPOINT ringfence_check", []);
    await query("RELEASE SAVEPOINT ringfence_check", []);
  } catch (error) {
    if (saidOf(error) !== "25P01") throw error;
    throw noTransaction(
      isPrisma(transaction)
        ? "what `prisma.$transaction` calls its function with"
        : "send BEGIN on this client first",
    );
  }
  await refuseOldSnapshot(query);
  return query;
}

/** To be asked first: a model of Prisma may have any other name. */
function isPrisma(transaction: UserTransaction): transaction is PrismaTransaction {
  return "$queryRawUnsafe" in transaction;
}

function sendingTo(transaction: UserTransaction): Query {
  if (isPrisma(transaction))
    return async (text, values) =>
      (await transaction.$queryRawUnsafe(text, ...(values as never[]))) as readonly unknown[];
  if ("unsafe" in transaction) {
    if (!("savepoint" in transaction)) throw noTransaction("the `sql` that `sql.begin` gives");
    return async (text, values) => await transaction.unsafe(text, values as never[]);
  }
  if ("executeQuery" in transaction) {
    if (!transaction.isTransaction)
      throw noTransaction("the transaction that `db.transaction().execute` gives");
    return async (text, values) => {
      // What Kysely's own `CompiledQuery.raw` makes.
      const query = {
        sql: text,
        query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
        parameters: values,
        queryId: { queryId: "ringfence" },
      };
      return (await transaction.executeQuery(query as never)).rows;
    };
  }
  if ("execute" in transaction) {
    if (!("rollback" in transaction))
      throw noTransaction("the transaction that `db.transaction` gives");
    return async (text, values) => await executed(transaction, text, values);
  }
  if ("query" in transaction) {
    if ("totalCount" in transaction)
      throw noTransaction("the client of `pool.connect()` that has begun one, not the pool");
    const client = transaction;
    return async (text, values) => (await client.query(text, [...values])).rows;
  }
  throw noTransaction(
    "a client of `pg`, or a transaction of `postgres`, Kysely, Drizzle or Prisma",
  );
}

/** One statement of Drizzle's, as its own `sql` would say it; its answer is what the client under it gives. */
async function executed(
  transaction: DrizzleTransaction,
  text: string,
  values: readonly unknown[],
): Promise<readonly unknown[]> {
  const built = { sql: text, params: values };
  const query = { getSQL: () => ({ toQuery: () => built }) };
  const answer = (await transaction.execute(query as never)) as
    | readonly unknown[]
    | { readonly rows: readonly unknown[] };
  return "rows" in answer ? answer.rows : answer;
}

function noTransaction(expected: string): InvalidArgumentError {
  return new InvalidArgumentError(`Expected a transaction: ${expected}.`);
}
