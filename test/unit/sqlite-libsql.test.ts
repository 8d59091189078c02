import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it, vi } from "vitest";
import type { SqliteDatabase, SqliteStatement } from "../../src/drivers/sqlite/client.ts";
import { loadLibsql, nativePart } from "../../src/drivers/sqlite/libsql.ts";

const require = createRequire(import.meta.url);
const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** By the package's own entry. */
function byPackage(path: string): SqliteDatabase {
  const Database = require("libsql") as new (path: string) => SqliteDatabase;
  return new Database(path);
}

it("the native part is the very file that the installed package loads", () => {
  byPackage(":memory:").close();
  const loaded = Object.keys(require.cache).filter((path) => path.endsWith(".node"));
  const dlopen = vi.spyOn(process, "dlopen");
  expect(nativePart(import.meta.dirname)).not.toBeNull();
  expect(dlopen.mock.calls.map(([, path]) => realpathSync(path))).toEqual(loaded);
  dlopen.mockRestore();
});

/** A folder below one that has a package for each platform, of this version and with this file as native part. */
function installed(version: unknown, native: string | null): string {
  const folder = mkdtempSync(join(tmpdir(), "ringfence-libsql-"));
  folders.push(folder);
  for (const platform of ["linux-*-gnu", "linux-*-musl", "darwin-*"]) {
    const home = join(folder, "node_modules/@libsql", platform.replace("*", process.arch));
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, "package.json"), JSON.stringify({ version }));
    if (native !== null) symlinkSync(native, join(home, "index.node"));
  }
  mkdirSync(join(folder, "below/it"), { recursive: true });
  return join(folder, "below/it");
}

it("only the known version is called by itself, wherever above it is", () => {
  byPackage(":memory:").close();
  const native = Object.keys(require.cache).find((path) => path.endsWith(".node")) ?? "";
  expect(nativePart(installed("0.5.29", native))).not.toBeNull();
  for (const version of ["0.5.28", "0.5.30", "0.6.0", undefined])
    expect(nativePart(installed(version, native))).toBeNull();
});

it("a part that is missing or cannot be loaded leaves it to the package's entry", () => {
  expect(nativePart(tmpdir())).toBeNull();
  expect(nativePart(installed("0.5.29", null))).toBeNull();
  expect(nativePart(installed("0.5.29", import.meta.filename))).toBeNull();
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

/** A statement as it takes its values in order. */
function inOrder(
  statement: SqliteStatement,
): Record<"run" | "get" | "all", (...values: unknown[]) => unknown> {
  return statement as never;
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
    // In order: in one list as the driver binds them, and one by one as a guard does.
    run("INSERT INTO t (text) VALUES (?)", (insert) => inOrder(insert).run(["c"])),
    run("INSERT INTO t (id, text) VALUES (?, ?)", (insert) => inOrder(insert).run(7, "d")),
    run("SELECT text FROM t WHERE id = ?", (select) => inOrder(select).get(7)),
    run("SELECT text FROM t ORDER BY id", (select) => inOrder(select).all()),
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
  expect(answers.at(16)).toHaveLength(201);
  const nowhere = (db: (path: string) => unknown) => outcome(() => db("/nonexistent/locks.db"));
  expect(nowhere(open)).toEqual(nowhere(byPackage));
  expect(JSON.stringify(nowhere(open))).toContain("/nonexistent/locks.db");
});
