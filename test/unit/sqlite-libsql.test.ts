import { createRequire } from "node:module";
import { expect, it } from "vitest";
import type { SqliteDatabase, SqliteStatement } from "../../src/drivers/sqlite/client.ts";
import { loadLibsql, nativePart } from "../../src/drivers/sqlite/libsql.ts";

const require = createRequire(import.meta.url);
const load = (id: string): unknown => require(id);

/** By the package's own entry. */
function byPackage(path: string): SqliteDatabase {
  const Database = load("libsql") as new (path: string) => SqliteDatabase;
  return new Database(path);
}

it("the native part is the very one that the installed package loads", () => {
  byPackage(":memory:").close();
  const part = nativePart(load);
  expect(part).not.toBeNull();
  const loaded = Object.entries(require.cache).filter(([path]) => path.endsWith(".node"));
  expect(loaded.map(([, module]) => module?.exports as unknown)).toEqual([part]);
});

it("only the known version is called by itself: else the package's entry is", () => {
  const asked: string[] = [];
  const of = (version: unknown) => (id: string) => {
    asked.push(id);
    return id.endsWith("/package.json") ? { version } : { databaseOpen: () => ({}) };
  };
  expect(nativePart(of("0.5.29"))).not.toBeNull();
  for (const version of ["0.5.28", "0.5.30", "0.6.0", undefined]) {
    asked.length = 0;
    expect(nativePart(of(version))).toBeNull();
    expect(asked).toHaveLength(1);
  }
});

it("a part that is missing or cannot be loaded leaves it to the package's entry", () => {
  const missing = (): never => {
    throw new Error("Cannot find module");
  };
  expect(nativePart(missing)).toBeNull();
  const broken = (id: string): unknown => (id.endsWith("/package.json") ? load(id) : missing());
  expect(nativePart(broken)).toBeNull();
});

/** What a call gives, or its error as the driver looks at it. */
function outcome(call: () => unknown): unknown {
  try {
    const result = call();
    return JSON.parse(JSON.stringify(result ?? null, withoutTimes)) as unknown;
  } catch (error) {
    const { message, code, rawCode } = error as Record<string, unknown>;
    return { message, code, rawCode };
  }
}

/** libsql adds how long a statement took. */
function withoutTimes(key: string, value: unknown): unknown {
  return key === "_metadata" || key === "duration" ? undefined : value;
}

/** The same calls on a connection of either making. */
function script(db: SqliteDatabase): unknown[] {
  const run = (text: string, use: (statement: SqliteStatement) => unknown): unknown =>
    outcome(() => use(db.prepare(text)));
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :most) SELECT i FROM n`;
  return [
    outcome(() => db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT UNIQUE)")),
    run("INSERT INTO t (text) VALUES (:text)", (insert) => insert.run({ text: "a" })),
    run("INSERT INTO t (text) VALUES (:text)", (insert) => insert.run({ text: "a" })),
    run("INSERT INTO t (id, text) VALUES (:id, :text)", (insert) =>
      insert.run({ id: 2n ** 60n, text: null }),
    ),
    run("SELECT CAST(id AS TEXT) AS id, text FROM t ORDER BY id", (select) => select.all({})),
    run("SELECT text FROM t WHERE text = :text", (select) => select.get({ text: "a" })),
    run("SELECT text FROM t WHERE text = :text", (select) => select.get({ text: "b" })),
    run("SELECT text FROM t WHERE text = :text", (select) => select.all({ text: "b" })),
    // Fewer rows than are fetched at once, as many, twice as many, and one more.
    ...[99, 100, 101, 200, 201].map((most) => run(numbers, (select) => select.all({ most }))),
    outcome(() => db.exec("SELEC")),
    run("SELECT * FROM missing", (select) => select.get({})),
    outcome(() => db.inTransaction),
    outcome(() => db.exec("BEGIN IMMEDIATE")),
    outcome(() => db.inTransaction),
    outcome(() => db.exec("BEGIN IMMEDIATE")),
    outcome(() => db.exec("ROLLBACK")),
    outcome(() => db.close()),
    outcome(() => db.prepare("SELECT 1")),
  ];
}

it("answers and fails as a connection of the package does", async () => {
  const open = await loadLibsql();
  const own = open(":memory:");
  expect(own.constructor.name).toBe("NativeDatabase");
  const answers = script(own);
  expect(answers).toEqual(script(byPackage(":memory:")));
  expect(answers.at(2)).toMatchObject({ code: "SQLITE_CONSTRAINT_UNIQUE" });
  expect(answers.at(12)).toHaveLength(201);
  const nowhere = (db: (path: string) => unknown) => outcome(() => db("/nonexistent/locks.db"));
  expect(nowhere(open)).toEqual(nowhere(byPackage));
  expect(JSON.stringify(nowhere(open))).toContain("/nonexistent/locks.db");
});
