import type { PoolConnection, ResultSetHeader } from "mysql2/promise";
import type { Pool } from "pg";
import type { Sql } from "postgres";
import type { Guard } from "../../src/core/guard.ts";
import { mysqlGuard } from "../../src/guards/mysql/index.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import type { StormClient } from "./guard-storm-worker.ts";

/** Runs one statement with `?` for its values. */
type Run = (text: string, ...values: (string | number)[]) => Promise<Record<string, unknown>[]>;

/** One client, as the workers use it. */
export interface StormDatabase {
  readonly pool: unknown;
  readonly guard: Pick<Guard<unknown, unknown>, "run" | "claim" | "verify">;
  runIn(tx: unknown): Run;
  /** One transaction; tries again while it meets others. */
  transaction<T>(body: (run: Run, tx: unknown) => Promise<T>): Promise<T>;
  /** Whether the server ended the session or the statement, so that nothing was written. */
  isInterrupted(error: unknown): boolean;
  /** One statement: the next token of the lock service, unless somebody's lease lasts; then `null`. */
  grant(step: number, forMs: number): Promise<bigint | null>;
}

const REPEATABLE: readonly unknown[] = ["40001", "40P01", 1213, 1020];
const INTERRUPTED: readonly unknown[] = [
  "25P03",
  "57014",
  "57P01",
  "55P03",
  "CONNECTION_CLOSED",
  "ECONNRESET",
  "EPIPE",
  "PROTOCOL_CONNECTION_LOST",
  1205,
  4031,
  1927,
];

const numbered = (text: string): string => {
  let n = 0;
  return text.replaceAll("?", () => `$${++n}`);
};

interface Token {
  readonly token: string;
}

const GRANT =
  "UPDATE service SET token = greatest(1, token + $1::bigint), ends_ms = $2::bigint WHERE ends_ms < $3::bigint RETURNING token::text AS token";

const grantValues = (step: number, forMs: number): number[] => [
  step,
  Date.now() + forMs,
  Date.now(),
];

const tokenIn = (rows: ArrayLike<Token>): bigint | null => {
  const [row] = Array.from(rows);
  return row === undefined ? null : BigInt(row.token);
};

async function repeated<T>(attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const { code, errno } = error as { code?: unknown; errno?: unknown };
      if (!REPEATABLE.includes(code) && !REPEATABLE.includes(errno)) throw error;
    }
  }
}

function isInterrupted(error: unknown): boolean {
  const { code, errno, message } = error as { code?: unknown; errno?: unknown; message?: string };
  // `pg` gives a session that ended no code.
  return (
    INTERRUPTED.includes(code) ||
    INTERRUPTED.includes(errno) ||
    (code === undefined && /terminated|not queryable|closed state/.test(message ?? ""))
  );
}

async function overPg(url: string): Promise<StormDatabase> {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  const ignore = (): void => undefined;
  pool.on("error", ignore);
  const runIn =
    (tx: unknown): Run =>
    async (text, ...values) =>
      (await (tx as Pool).query<Record<string, unknown>>(numbered(text), values)).rows;
  return {
    pool,
    guard: postgresGuard({ patience: "500ms" }),
    runIn,
    transaction: async (body) =>
      repeated(async () => {
        const tx = await pool.connect();
        tx.on("error", ignore);
        let broken = true;
        try {
          await tx.query("BEGIN");
          const result = await body(runIn(tx), tx);
          await tx.query("COMMIT");
          broken = false;
          return result;
        } finally {
          tx.off("error", ignore);
          // What did not end well is thrown away, and so rolled back.
          tx.release(broken);
        }
      }),
    isInterrupted,
    grant: async (...values) =>
      tokenIn((await pool.query<Token>(GRANT, grantValues(...values))).rows),
  };
}

async function overPostgresJs(url: string): Promise<StormDatabase> {
  const { default: postgres } = await import("postgres");
  const sql = postgres(url, { max: 2, onnotice: () => undefined });
  const runIn =
    (tx: unknown): Run =>
    async (text, ...values) => [
      ...(await (tx as Sql).unsafe<Record<string, unknown>[]>(numbered(text), values)),
    ];
  return {
    pool: sql,
    guard: postgresGuard({ patience: "500ms" }),
    runIn,
    async transaction<T>(body: (run: Run, tx: unknown) => Promise<T>): Promise<T> {
      return await repeated(async () => {
        let result: { readonly is: T } | undefined;
        await sql.begin(async (tx) => {
          result = { is: await body(runIn(tx), tx) };
        });
        return (result as unknown as { readonly is: T }).is;
      });
    },
    isInterrupted,
    grant: async (...values) => tokenIn(await sql.unsafe<Token[]>(GRANT, grantValues(...values))),
  };
}

async function overMysql(url: string): Promise<StormDatabase> {
  const { default: mysql } = await import("mysql2/promise");
  const pool = mysql.createPool({ uri: url, connectionLimit: 2 });
  const runIn =
    (tx: unknown): Run =>
    async (text, ...values) => {
      const [rows] = await (tx as PoolConnection).query(text, values);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
    };
  return {
    pool,
    guard: mysqlGuard({ patience: "1s" }),
    runIn,
    transaction: async (body) =>
      repeated(async () => {
        const tx = await pool.getConnection();
        let broken = true;
        try {
          await tx.query("START TRANSACTION");
          const result = await body(runIn(tx), tx);
          await tx.query("COMMIT");
          broken = false;
          return result;
        } finally {
          if (broken) tx.destroy();
          else tx.release();
        }
      }),
    isInterrupted,
    async grant(step, forMs) {
      const [done] = await pool.query<ResultSetHeader>(
        "UPDATE service SET token = LAST_INSERT_ID(GREATEST(1, token + ?)), ends_ms = ? WHERE ends_ms < ?",
        [step, Date.now() + forMs, Date.now()],
      );
      return done.affectedRows === 1 ? BigInt(done.insertId) : null;
    },
  };
}

/** The database of a worker; its client library alone is loaded. */
export async function stormDatabase({ client, url }: StormClient): Promise<StormDatabase> {
  if (client === "mysql2") return await overMysql(url);
  return await (client === "pg" ? overPg(url) : overPostgresJs(url));
}
