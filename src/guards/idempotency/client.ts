import { InvalidArgumentError } from "../../core/errors.ts";

/** What one statement answered. */
export interface Answer {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** Rows that it returned or changed. */
  readonly count: number;
}

/** Whose SQL it is. */
export type Dialect = "postgres" | "mysql" | "sqlite";

/** A connection or pool of `pg`, as far as it is used here. */
export interface PgQueries {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null }>;
}

/** The `sql` of `postgres`, or a transaction of it. */
export interface PostgresJsQueries {
  unsafe(
    text: string,
    values?: never[],
  ): PromiseLike<ArrayLike<unknown> & { readonly count: number }>;
}

/** A connection or pool of `mysql2/promise`. */
export interface MysqlQueries {
  query(text: string, values?: unknown[]): Promise<[unknown, unknown]>;
  execute(text: string, values?: never[]): Promise<unknown>;
}

/** A connection of better-sqlite3, libsql or node:sqlite. */
export interface SqliteQueries {
  exec(sql: string): unknown;
  prepare(sql: string): {
    run(...params: unknown[]): { readonly changes: number | bigint };
    all(...params: unknown[]): unknown[];
  };
}

/** Clients that answer later. */
export type AsyncQueries = PgQueries | PostgresJsQueries | MysqlQueries;

/** Any of the clients. */
export type Queries = AsyncQueries | SqliteQueries;

/** One statement; `?` stands for each value. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly (string | number | null)[];
}

/** A client that answers at once, or later. */
export type Client =
  | { readonly dialect: Dialect; readonly sync: true; run(statement: Statement): Answer }
  | { readonly dialect: Dialect; readonly sync: false; run(statement: Statement): Promise<Answer> };

type Unknown = Readonly<Record<string, unknown>>;

function has(value: unknown, ...methods: readonly string[]): value is Unknown {
  return (
    ((typeof value === "object" && value !== null) || typeof value === "function") &&
    methods.every((method) => typeof (value as Unknown)[method] === "function")
  );
}

/**
 * Recognises a client by what it can do.
 * @throws InvalidArgumentError for what is none of them
 */
export function clientOf(queries: Queries): Client {
  const found: unknown = queries;
  if (has(found, "prepare", "exec")) return sqliteClient(found as unknown as SqliteQueries);
  if (has(found, "unsafe")) return postgresJsClient(found as unknown as PostgresJsQueries);
  // A callback client of mysql2 has `promise()`, which gives the one that is meant.
  if (has(found, "query", "execute") && !has(found, "promise")) return mysqlClient(found);
  if (has(found, "query") && !has(found, "execute")) return pgClient(found);
  throw new InvalidArgumentError(
    "Expected a client of pg, postgres, mysql2/promise, better-sqlite3, libsql or node:sqlite.",
  );
}

/** @throws InvalidArgumentError for a pool, whose statements run on any connection */
export function checkTransaction(tx: Queries): void {
  const found: unknown = tx;
  const pool =
    has(found, "getConnection") ||
    has(found, "begin", "unsafe") ||
    (has(found, "connect") && typeof found["totalCount"] === "number");
  const open = has(found, "prepare") ? (found["inTransaction"] ?? found["isTransaction"]) : true;
  if (pool || open === false)
    throw new InvalidArgumentError(
      "Expected an open transaction: the key and the effect are written together or not at all.",
    );
}

function numbered(text: string): string {
  let number = 0;
  return text.replaceAll("?", () => {
    number += 1;
    return `$${number}`;
  });
}

function pgClient(client: PgQueries): Client {
  return {
    dialect: "postgres",
    sync: false,
    async run({ text, values = [] }) {
      const { rows, rowCount } = await client.query(numbered(text), [...values]);
      return { rows: rows as Answer["rows"], count: rowCount ?? 0 };
    },
  };
}

function postgresJsClient(sql: PostgresJsQueries): Client {
  return {
    dialect: "postgres",
    sync: false,
    async run({ text, values = [] }) {
      const rows = await sql.unsafe(numbered(text), [...values] as never[]);
      return { rows: Array.from(rows) as Answer["rows"], count: rows.count };
    },
  };
}

function mysqlClient(client: MysqlQueries): Client {
  return {
    dialect: "mysql",
    sync: false,
    async run({ text, values = [] }) {
      const [answer] = await client.query(text, [...values]);
      if (Array.isArray(answer)) return { rows: answer as Answer["rows"], count: answer.length };
      return { rows: [], count: (answer as { readonly affectedRows: number }).affectedRows };
    },
  };
}

function sqliteClient(db: SqliteQueries): Client {
  return {
    dialect: "sqlite",
    sync: true,
    run({ text, values = [] }) {
      const statement = db.prepare(text);
      if (/^\s*SELECT/i.test(text)) {
        const rows = statement.all(...values) as Answer["rows"];
        return { rows, count: rows.length };
      }
      return { rows: [], count: Number(statement.run(...values).changes) };
    },
  };
}
