// What a guard costs: one guarded UPDATE, and `run` with six statements, against the same without it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import type { QueryConfig } from "pg";
import { createLockManager } from "ringfence";
import { postgresGuard } from "ringfence/guards/postgres";
import { sqliteGuard } from "ringfence/guards/sqlite";
import { memoryDriver } from "ringfence/memory";
import { PostgresServer } from "../test/fixtures/postgres-server.ts";
import { compare, now } from "./harness.ts";

const RUN_MS = 25;
const SLICES = 10;
const PAIRS = 15;
const ROWS = 64;
const STATEMENTS = 6;

/** How often a second. */
async function rate(cycle: (i: number) => unknown): Promise<number> {
  const started = now();
  let cycles = 0;
  for (; now() - started < RUN_MS; cycles += 1) await cycle(cycles);
  return (cycles / (now() - started)) * 1000;
}

const words = {
  ours: "guarded",
  theirs: "plain",
  unit: "a second",
  pairs: PAIRS,
  slices: SLICES,
  warmUps: 40,
};
const ONE = "ratio at least 0.95";
const SIX = "ratio at least 0.8";
const COLUMNS = "fence_token bigint, fence_grant text, fence_scope text";

const locks = createLockManager(memoryDriver());
const lease = await locks.acquire("bench");
const { scope, grantId, token } = lease;
const fence = [token.toString(), grantId, scope];

async function postgres(): Promise<void> {
  // As one runs it: what is measured would otherwise be a commit that costs nothing.
  await using server = await PostgresServer.start({ fsync: "on", full_page_writes: "on" });
  await server.query(`CREATE TABLE t (id int PRIMARY KEY, value int NOT NULL, ${COLUMNS})`);
  await server.query(
    "INSERT INTO t SELECT i, 0, $1::bigint, $2, $3 FROM generate_series(0, 63) i",
    fence,
  );
  const pool = server.pool({ max: 1 });
  const guard = postgresGuard();
  const plain = "UPDATE t SET value = value + 1 WHERE id = $1";
  for (const named of [true, false]) {
    // A statement that is run again and again has a name: the server parses and plans it once.
    const query = (name: string, text: string, values: unknown[]): QueryConfig =>
      named ? { name, text, values } : { text, values };
    await compare(
      {
        ...words,
        title: `PostgreSQL (pg), one UPDATE of a row with its own fence columns, ${named ? "named on both sides" : "parsed and planned each time"}`,
        target: named ? ONE : `${ONE} where it is named`,
      },
      {
        ours: async () =>
          await rate(async (i) => {
            const mine = guard.predicate(lease, { from: 2 });
            const text = `${plain} AND ${mine.text}`;
            const { rowCount } = await pool.query(
              query("guarded", text, [i % ROWS, ...mine.params]),
            );
            if (rowCount !== 1) throw new Error("refused");
          }),
        theirs: async () => await rate(async (i) => pool.query(query("plain", plain, [i % ROWS]))),
      },
    );
  }
  await compare(
    { ...words, title: `PostgreSQL (pg), run with ${STATEMENTS} statements`, target: SIX },
    {
      ours: async () =>
        await rate(async (i) =>
          guard.run(pool, "t", lease, async (tx) => {
            for (let n = 0; n < STATEMENTS; n += 1) await tx.query(plain, [(i + n) % ROWS]);
          }),
        ),
      theirs: async () =>
        await rate(async (i) => {
          const tx = await pool.connect();
          await tx.query("BEGIN");
          for (let n = 0; n < STATEMENTS; n += 1) await tx.query(plain, [(i + n) % ROWS]);
          await tx.query("COMMIT");
          tx.release();
        }),
    },
  );
  await pool.end();
}

async function sqlite(synchronous: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "ringfence-bench-"));
  const db = new Database(join(folder, "data.db"));
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
  db.exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, ${COLUMNS})`);
  const insert = db.prepare("INSERT INTO t VALUES (?, 0, CAST(? AS INTEGER), ?, ?)");
  for (let i = 0; i < ROWS; i += 1) insert.run(i, ...fence);
  const guard = sqliteGuard();
  const text = "UPDATE t SET value = value + 1 WHERE id = ?";
  const [plain, guarded] = [
    db.prepare(text),
    db.prepare(`${text} AND ${guard.predicate(lease).text}`),
  ];
  await compare(
    {
      ...words,
      title: `SQLite (libsql, WAL, synchronous ${synchronous}), one UPDATE of a row with its own fence columns`,
      target: ONE,
    },
    {
      ours: async () =>
        await rate((i) => {
          // A list on both sides: libsql makes one of separate values.
          if (guarded.run([i % ROWS, ...guard.predicate(lease).params]).changes !== 1)
            throw new Error("refused");
        }),
      theirs: async () => await rate((i) => plain.run([i % ROWS])),
    },
  );
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  await compare(
    {
      ...words,
      title: `SQLite (libsql, WAL, synchronous ${synchronous}), run with ${STATEMENTS} statements`,
      target: SIX,
    },
    {
      ours: async () =>
        await rate(async (i) =>
          guard.run(db, "t", lease, () => {
            for (let n = 0; n < STATEMENTS; n += 1) plain.run([(i + n) % ROWS]);
          }),
        ),
      theirs: async () =>
        await rate((i) => {
          begin.run();
          for (let n = 0; n < STATEMENTS; n += 1) plain.run([(i + n) % ROWS]);
          commit.run();
        }),
    },
  );
  db.close();
  rmSync(folder, { recursive: true, force: true });
}

await postgres();
// FULL is SQLite's default. Without a sync the statement itself is so short that every bound value shows.
await sqlite("FULL");
await sqlite("NORMAL");
await lease.release();
await locks.close();
