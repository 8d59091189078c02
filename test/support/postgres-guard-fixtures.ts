import type { Pool, PoolClient } from "pg";
import postgres from "postgres";
import type { GuardOptions } from "../../src/core/guard.ts";
import {
  type PostgresDatabase,
  type PostgresGuard,
  type PostgresGuardOptions,
  type PostgresTransaction,
  postgresGuard,
} from "../../src/guards/postgres/index.ts";
import type { FencedRows, GuardFixture, OpenTransaction } from "../../src/testing/index.ts";
import type { PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";

/** What the fixture needs of a client. */
export interface Client<Db, Tx> {
  readonly db: Db;
  query(tx: Tx, text: string, values?: string[]): Promise<Record<string, unknown>[]>;
  transaction(body: (tx: Tx) => unknown): Promise<unknown>;
  begin(): Promise<OpenTransaction<Tx>>;
  readonly end: () => Promise<void>;
}

export type Sql = postgres.Sql;
export type SqlTx = postgres.ReservedSql | postgres.TransactionSql;

/** A pool of `pg`; `url`: where it connects, the server itself by default. */
export function pgClient(
  server: PostgresServer,
  url: string = server.url,
): Client<Pool, PoolClient> {
  const pool = server.pool({ max: 8, connectionString: url });
  const begin = async (): Promise<OpenTransaction<PoolClient>> => {
    const tx = await pool.connect();
    await tx.query("BEGIN");
    const end = async (text: string): Promise<void> => {
      try {
        await tx.query(text);
      } finally {
        tx.release();
      }
    };
    return { tx, commit: async () => end("COMMIT"), rollback: async () => end("ROLLBACK") };
  };
  return {
    db: pool,
    query: async (tx, text, values) => (await tx.query<Record<string, unknown>>(text, values)).rows,
    begin,
    async transaction(body) {
      const open = await begin();
      let result: unknown;
      try {
        result = await body(open.tx);
      } catch (error) {
        await open.rollback();
        throw error;
      }
      await open.commit();
      return result;
    },
    end: async () => pool.end(),
  };
}

/** The `sql` of `postgres`; `url` as above, and elsewhere without prepared statements. */
export function postgresJsClient(
  server: PostgresServer,
  url: string = server.url,
): Client<Sql, SqlTx> {
  const prepare = url === server.url;
  const sql = postgres(url, { max: 8, prepare, onnotice: () => undefined });
  return {
    db: sql,
    query: async (tx, text, values) => [
      ...(await tx.unsafe<Record<string, unknown>[]>(text, values)),
    ],
    transaction: async (body) => sql.begin(async (tx) => body(tx)),
    async begin() {
      const tx = await sql.reserve();
      await tx`BEGIN`;
      const end = async (text: string): Promise<void> => {
        try {
          await tx.unsafe(text);
        } finally {
          tx.release();
        }
      };
      return { tx, commit: async () => end("COMMIT"), rollback: async () => end("ROLLBACK") };
    },
    end: async () => sql.end({ timeout: 1 }),
  };
}

/** A server and two clients of it. */
export interface World<Db, Tx> {
  readonly server: PostgresServer;
  readonly one: Client<Db, Tx>;
  readonly two: Client<Db, Tx>;
}

let tables = 0;

/** Tables of a test's own; the clients are there for all tests. */
export function postgresFixture<Db extends PostgresDatabase, Tx extends PostgresTransaction>(
  name: string,
  world: () => World<Db, Tx>,
  make: (options: PostgresGuardOptions) => PostgresGuard = postgresGuard,
): GuardFixture<Db, Tx> {
  return {
    name,
    bodies: "async",
    has: { openTransactions: true, fencedRows: true },
    async open() {
      tables += 1;
      const [table, data, fenced] = [`guard_${tables}`, `data_${tables}`, `fenced_${tables}`];
      const { server, one, two } = world();
      await server.query(
        `CREATE TABLE ${data} (key text PRIMARY KEY, value text);
         CREATE TABLE ${fenced} (key text PRIMARY KEY, value text, fence_token bigint, fence_grant text, fence_scope text)`,
      );
      const of = (db: Db): Client<Db, Tx> => (db === one.db ? one : two);
      return {
        db: one.db,
        other: two.db,
        guard: (options: GuardOptions = {}) => {
          const guard = make({ ...options, table });
          return {
            run: async (db, resources, credential, fn) =>
              guard.run<unknown, PostgresDatabase>(db, resources, credential, async (tx) =>
                fn(tx as Tx),
              ),
            claim: async (db, ...rest) => guard.claim(db, ...rest),
            verify: async (tx, ...rest) => guard.verify(tx, ...rest),
            adopt: async (db, ...rest) => guard.adopt(db, ...rest),
            purge: async (db, ...rest) => guard.purge(db, ...rest),
          };
        },
        transaction: async (db, body) => of(db).transaction(body),
        read: async (tx, key) => {
          const rows = await one.query(tx, `SELECT value FROM ${data} WHERE key = $1`, [key]);
          return (rows[0]?.["value"] as string | undefined) ?? null;
        },
        write: async (tx, key, value) => {
          await one.query(
            tx,
            `INSERT INTO ${data} VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
            [key, value],
          );
        },
        begin: async (db) => of(db).begin(),
        rows: fencedRows(one, fenced, make({ table })),
        close: async () => undefined,
      };
    },
  };
}

function fencedRows<Db extends PostgresDatabase, Tx extends PostgresTransaction>(
  client: Client<Db, Tx>,
  table: string,
  guard: PostgresGuard,
): FencedRows {
  const run = async (text: string, values: string[]): Promise<Record<string, unknown>[]> =>
    (await client.transaction(async (tx) => client.query(tx, text, values))) as Record<
      string,
      unknown
    >[];
  return {
    async insert(key, value) {
      await run(`INSERT INTO ${table} (key, value) VALUES ($1, $2)`, [key, value]);
    },
    async read(key) {
      return (await run(`SELECT value FROM ${table} WHERE key = $1`, [key]))[0]?.[
        "value"
      ] as string;
    },
    async update(key, value, credential, condition) {
      const head = [value, key];
      if (condition === "predicate") {
        const mine = guard.predicate(credential, { from: 3 });
        const text = `UPDATE ${table} SET value = $1 WHERE key = $2 AND ${mine.text} RETURNING 1`;
        return (await run(text, [...head, ...mine.params])).length === 1;
      }
      const rises = guard.claimPredicate(credential, { from: 3 });
      const text = `UPDATE ${table} SET value = $1, ${rises.set.text} WHERE key = $2 AND ${rises.text} RETURNING 1`;
      return (await run(text, [...head, ...rises.params, ...rises.set.params])).length === 1;
    },
  };
}

/** A pool with session options, ended with the test. */
export function stopPool(server: PostgresServer, options: string): Pool {
  const pool = server.pool({ options });
  stopAfter({ close: async () => pool.end() });
  return pool;
}

/** The `sql` of `postgres`, ended with the test. */
export function stopSql(server: PostgresServer): postgres.Sql {
  const sql = postgres(server.url, { max: 2, onnotice: () => undefined });
  stopAfter({ close: async () => sql.end({ timeout: 1 }) });
  return sql;
}
