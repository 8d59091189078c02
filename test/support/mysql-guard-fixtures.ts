import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from "mysql2/promise";
import type { GuardOptions } from "../../src/core/guard.ts";
import { type MysqlGuard, mysqlGuard } from "../../src/guards/mysql/index.ts";
import type { FencedRows, GuardFixture, OpenTransaction } from "../../src/testing/index.ts";
import type { MariadbServer } from "../fixtures/mariadb-server.ts";

/** A server and two pools of it. */
export interface World {
  readonly server: MariadbServer;
  readonly one: Pool;
  readonly two: Pool;
}

async function begin(pool: Pool): Promise<OpenTransaction<PoolConnection>> {
  const tx = await pool.getConnection();
  await tx.query("START TRANSACTION");
  const end = async (text: string): Promise<void> => {
    try {
      await tx.query(text);
    } finally {
      tx.release();
    }
  };
  return { tx, commit: async () => end("COMMIT"), rollback: async () => end("ROLLBACK") };
}

async function transaction(pool: Pool, body: (tx: PoolConnection) => unknown): Promise<unknown> {
  const open = await begin(pool);
  let result: unknown;
  try {
    result = await body(open.tx);
  } catch (error) {
    await open.rollback();
    throw error;
  }
  await open.commit();
  return result;
}

let tables = 0;

/** Tables of a test's own; the pools are there for all tests. */
export function mysqlFixture(name: string, world: () => World): GuardFixture<Pool, PoolConnection> {
  return {
    name,
    bodies: "async",
    has: { openTransactions: true, fencedRows: true },
    async open() {
      tables += 1;
      const [table, data, fenced] = [`guard_${tables}`, `data_${tables}`, `fenced_${tables}`];
      const { one, two } = world();
      await one.query(`CREATE TABLE ${data} (id VARBINARY(600) PRIMARY KEY, value TEXT)`);
      await one.query(
        `CREATE TABLE ${fenced} (id VARCHAR(60) PRIMARY KEY, value TEXT, fence_token BIGINT, fence_grant VARCHAR(64), fence_scope VARCHAR(64))`,
      );
      return {
        db: one,
        other: two,
        guard: (options: GuardOptions = {}) => mysqlGuard({ ...options, table }),
        transaction,
        read: async (tx, key) => {
          const [rows] = await tx.query<RowDataPacket[]>(`SELECT value FROM ${data} WHERE id = ?`, [
            key,
          ]);
          return (rows[0]?.["value"] as string | undefined) ?? null;
        },
        write: async (tx, key, value) => {
          await tx.query(`REPLACE INTO ${data} VALUES (?, ?)`, [key, value]);
        },
        begin,
        rows: fencedRows(one, fenced, mysqlGuard({ table })),
        close: async () => undefined,
      };
    },
  };
}

function fencedRows(pool: Pool, table: string, guard: MysqlGuard): FencedRows {
  return {
    async insert(key, value) {
      await pool.query(`INSERT INTO ${table} (id, value) VALUES (?, ?)`, [key, value]);
    },
    async read(key) {
      const [rows] = await pool.query<RowDataPacket[]>(`SELECT value FROM ${table} WHERE id = ?`, [
        key,
      ]);
      return rows[0]?.["value"] as string;
    },
    async update(key, value, credential, condition) {
      if (condition === "predicate") {
        const mine = guard.predicate(credential);
        const text = `UPDATE ${table} SET value = ? WHERE id = ? AND ${mine.text}`;
        const [done] = await pool.query<ResultSetHeader>(text, [value, key, ...mine.params]);
        return done.affectedRows === 1;
      }
      const { text, params, set } = guard.claimPredicate(credential);
      const update = `UPDATE ${table} SET value = ?, ${set.text} WHERE id = ? AND ${text}`;
      const values = [value, ...set.params, key, ...params];
      const [done] = await pool.query<ResultSetHeader>(update, values);
      return done.affectedRows === 1;
    },
  };
}
