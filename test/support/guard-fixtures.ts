import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import type { GuardOptions } from "../../src/core/guard.ts";
import {
  type FileStore,
  type FileTransaction,
  fileGuard,
  fileStore,
} from "../../src/guards/file/index.ts";
import { begin } from "../../src/guards/file/store.ts";
import {
  type MemoryStore,
  type MemoryTransaction,
  memoryGuard,
  memoryStore,
} from "../../src/guards/memory/index.ts";
import { transactionOpen } from "../../src/guards/sqlite/client.ts";
import {
  type SqliteConnection,
  type SqliteGuard,
  sqliteGuard,
} from "../../src/guards/sqlite/index.ts";
import type { GuardFixture, GuardUnderTest, OpenedResource } from "../../src/testing/index.ts";

/** A connection of any of the clients. */
export type Connection = SqliteConnection & { close(): void };

/** Opens a file with libsql. */
function openLibsql(file: string): Connection {
  return new Database(file);
}

/** A folder of this test's own, and how to remove it. */
export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "ringfence-guard-"));
  return {
    path,
    remove: () => {
      rmSync(path, { recursive: true, force: true });
    },
  };
}

type MakeGuard<Db, Tx> = (options?: GuardOptions) => GuardUnderTest<Db, Tx>;

/** A memory store under the given guard. */
export function memoryFixture(
  name: string,
  guard: MakeGuard<MemoryStore<string>, MemoryTransaction<string>> = memoryGuard,
): GuardFixture<MemoryStore<string>, MemoryTransaction<string>> {
  return {
    name,
    bodies: "sync",
    has: { openTransactions: false, fencedRows: false },
    async open() {
      const store = memoryStore<string>();
      return {
        db: store,
        other: store,
        guard,
        transaction: async (db, body) => db.transaction(body),
        read: (tx, key) => tx.get(key) ?? null,
        write: (tx, key, value) => {
          tx.set(key, value);
        },
        close: async () => undefined,
      };
    },
  };
}

/** A file store in a temporary folder under the given guard. */
export function fileFixture(
  name: string,
  guard: MakeGuard<FileStore, FileTransaction> = fileGuard,
): GuardFixture<FileStore, FileTransaction> {
  return {
    name,
    bodies: "async",
    has: { openTransactions: true, fencedRows: false },
    async open() {
      const folder = temporaryFolder();
      const [db, other] = [fileStore(folder.path), fileStore(folder.path)];
      return {
        db,
        other,
        guard,
        transaction: async (store, body) => store.transaction(async (tx) => body(tx)),
        read: async (tx, key) => tx.readText(key),
        write: (tx, key, value) => {
          tx.write(key, value);
        },
        async begin(store) {
          const tx = await begin(store);
          return {
            tx,
            async commit() {
              const outcome = await tx.commit();
              if (outcome !== "committed") throw new Error(outcome);
            },
            rollback: async () => {
              tx.finish();
            },
          };
        },
        close: async () => {
          folder.remove();
        },
      };
    },
  };
}

/** What of the SQLite fixture differs from libsql in WAL mode under the right guard. */
interface SqliteParts {
  readonly journal?: "wal" | "delete";
  readonly open?: (file: string) => Connection;
  readonly conditions?: (guard: SqliteGuard) => Conditions;
}

/** A SQLite file in a temporary folder, with two connections. */
export function sqliteFixture(
  name: string,
  { journal = "wal", open = openLibsql, conditions = (right) => right }: SqliteParts = {},
): GuardFixture<Connection, Connection> {
  return {
    name,
    bodies: "sync",
    has: { openTransactions: true, fencedRows: true },
    async open() {
      const folder = temporaryFolder();
      const [db, other] = [
        prepared(open, folder.path, journal),
        prepared(open, folder.path, journal),
      ];
      return {
        db,
        other,
        guard: sqliteGuard,
        transaction: async (connection, body) => inTransaction(connection, body),
        read: (tx, key) => {
          const row = tx.prepare("SELECT value FROM data WHERE key = ?").all(key)[0];
          return (row as { value: string } | undefined)?.value ?? null;
        },
        write: (tx, key, value) => {
          tx.prepare("INSERT OR REPLACE INTO data (key, value) VALUES (?, ?)").run(key, value);
        },
        async begin(connection) {
          connection.exec("BEGIN");
          return {
            tx: connection,
            commit: async () => {
              connection.exec("COMMIT");
            },
            rollback: async () => {
              if (transactionOpen(connection) !== false) connection.exec("ROLLBACK");
            },
          };
        },
        rows: fencedRows(db, conditions(sqliteGuard())),
        async close() {
          db.close();
          other.close();
          folder.remove();
        },
      };
    },
  };
}

function prepared(open: (file: string) => Connection, folder: string, journal: string): Connection {
  const db = open(join(folder, "data.db"));
  db.exec(`PRAGMA journal_mode = ${journal}; PRAGMA synchronous = OFF;`);
  db.exec("CREATE TABLE IF NOT EXISTS data (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID");
  db.exec(
    "CREATE TABLE IF NOT EXISTS fenced (key TEXT PRIMARY KEY, value TEXT, fence_token INTEGER, fence_grant TEXT, fence_scope TEXT)",
  );
  return db;
}

function inTransaction<T>(db: Connection, body: (tx: Connection) => T): T {
  db.exec("BEGIN IMMEDIATE");
  try {
    const result = body(db);
    db.exec("COMMIT");
    return result;
  } catch (error) {
    if (transactionOpen(db) !== false) db.exec("ROLLBACK");
    throw error;
  }
}

/** What makes the conditions of fenced rows. */
type Conditions = Pick<SqliteGuard, "predicate" | "claimPredicate">;

function fencedRows(db: Connection, guard: Conditions): NonNullable<OpenedResource["rows"]> {
  return {
    async insert(key, value) {
      db.prepare("INSERT INTO fenced (key, value) VALUES (?, ?)").run(key, value);
    },
    async read(key) {
      const row = db.prepare("SELECT value FROM fenced WHERE key = ?").all(key)[0];
      return (row as { value: string }).value;
    },
    async update(key, value, credential, condition) {
      if (condition === "predicate") {
        const mine = guard.predicate(credential);
        const sql = `UPDATE fenced SET value = ? WHERE key = ? AND ${mine.text}`;
        return Number(db.prepare(sql).run(value, key, ...mine.params).changes) === 1;
      }
      const rises = guard.claimPredicate(credential);
      const sql = `UPDATE fenced SET value = ?, ${rises.set.text} WHERE key = ? AND ${rises.text}`;
      const params = [value, ...rises.set.params, key, ...rises.params];
      return Number(db.prepare(sql).run(...params).changes) === 1;
    },
  };
}
