import { join } from "node:path";
import Database from "libsql";
import postgres from "postgres";
import type { Queries } from "../../src/guards/idempotency/index.ts";
import type { MariadbServer } from "../fixtures/mariadb-server.ts";
import type { PostgresServer } from "../fixtures/postgres-server.ts";
import { temporaryFolder } from "./guard-fixtures.ts";

/** A transaction, as the tests of idempotency use it. */
export interface Tx {
  readonly client: Queries;
  /** One statement with `?` for values. */
  run(text: string, ...values: (string | number)[]): unknown;
}

/** A database of one client. */
export interface World {
  readonly name: string;
  /** Whether bodies have to be synchronous. */
  readonly sync: boolean;
  readonly db: Queries;
  transaction<T>(body: (tx: Tx) => T | Promise<T>): Promise<T>;
  rows(text: string): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

const numbered = (text: string): string => {
  let n = 0;
  return text.replaceAll("?", () => `$${++n}`);
};

async function around<T>(
  say: (text: string) => Promise<unknown>,
  body: () => T | Promise<T>,
): Promise<T> {
  await say("BEGIN");
  let result: T;
  try {
    result = await body();
  } catch (error) {
    await say("ROLLBACK");
    throw error;
  }
  await say("COMMIT");
  return result;
}

/** Over `pg`. */
export function pgWorld(server: PostgresServer): World {
  const pool = server.pool();
  return {
    name: "pg",
    sync: false,
    db: pool,
    async transaction(body) {
      const client = await pool.connect();
      const run = async (text: string, ...values: (string | number)[]): Promise<unknown> =>
        client.query(numbered(text), values);
      try {
        return await around(run, async () => body({ client, run }));
      } finally {
        client.release();
      }
    },
    rows: async (text) => (await pool.query<Record<string, unknown>>(text)).rows,
    close: async () => pool.end(),
  };
}

/** Over `postgres`. */
export function postgresJsWorld(server: PostgresServer): World {
  const sql = postgres(server.url, { max: 8, onnotice: () => undefined });
  return {
    name: "postgres",
    sync: false,
    db: sql,
    transaction: async <T>(body: (tx: Tx) => T | Promise<T>): Promise<T> => {
      let result: { readonly is: T } | undefined;
      await sql.begin(async (tx) => {
        const run = async (text: string, ...values: (string | number)[]): Promise<unknown> =>
          tx.unsafe(numbered(text), values);
        result = { is: await body({ client: tx, run }) };
      });
      return (result as unknown as { readonly is: T }).is;
    },
    rows: async (text) => [...(await sql.unsafe<Record<string, unknown>[]>(text))],
    close: async () => sql.end({ timeout: 1 }),
  };
}

/** Over `mysql2`. */
export function mysqlWorld(server: MariadbServer): World {
  const pool = server.pool();
  return {
    name: "mysql2",
    sync: false,
    db: pool,
    async transaction(body) {
      const client = await pool.getConnection();
      const run = async (text: string, ...values: (string | number)[]): Promise<unknown> =>
        client.query(text, values);
      try {
        return await around(run, async () => body({ client, run }));
      } finally {
        client.release();
      }
    },
    rows: async (text) => (await pool.query(text))[0] as Record<string, unknown>[],
    close: async () => pool.end(),
  };
}

/** Over libsql; one connection, since its transactions are synchronous. */
export function sqliteWorld(): World {
  const folder = temporaryFolder();
  const db = new Database(join(folder.path, "data.db"));
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
  return {
    name: "sqlite",
    sync: true,
    db,
    async transaction(body) {
      db.exec("BEGIN IMMEDIATE");
      try {
        const run = (text: string, ...values: (string | number)[]): unknown =>
          db.prepare(text).run(...values);
        const result = body({ client: db, run });
        db.exec("COMMIT");
        return await result;
      } catch (error) {
        db.exec("ROLLBACK");
        throw error;
      }
    },
    rows: async (text) => db.prepare(text).all() as Record<string, unknown>[],
    async close() {
      db.close();
      folder.remove();
    },
  };
}
