import Database from "libsql";
import { expect, it } from "vitest";
import {
  SqliteClient,
  type SqliteDatabase,
  type SqliteValue,
} from "../../src/drivers/sqlite/client.ts";

const VALUES = { name: "values", text: "SELECT :b AS b, :a + :a AS a, :b || :c AS c, :d AS d" };
const ARGS = { a: 1n, b: "x", c: "y", d: null, unused: 7 };

/** libsql, which takes values by name and as a list; without lists like the other clients. */
function database(lists: boolean, seen: unknown[]): SqliteDatabase {
  const db = new Database(":memory:") as unknown as SqliteDatabase;
  const checked = (args: Readonly<Record<string, SqliteValue>>): typeof args => {
    if (Array.isArray(args) && !lists) throw new TypeError("Missing named parameters");
    seen.push(args);
    return args;
  };
  return {
    exec: (text) => db.exec(text),
    close: () => db.close(),
    prepare(text) {
      const statement = db.prepare(text);
      return {
        get: (args) => statement.get(checked(args)),
        all: (args) => statement.all(checked(args)),
        run: (args) => statement.run(checked(args)),
      };
    },
  };
}

it.each([
  ["as a list", true, ["x", 1n, "y", null]],
  ["by name", false, ARGS],
])("hands over the values of a statement %s, as the client takes them", (_how, lists, given) => {
  const seen: unknown[] = [];
  const client = new SqliteClient(database(lists, seen), true);
  const row = { b: "x", a: 2, c: "xy", d: null };
  expect(client.get(VALUES, ARGS)).toMatchObject(row);
  expect(client.all(VALUES, ARGS)).toMatchObject([row]);
  expect(seen.slice(-2)).toEqual([given, given]);
  client.close();
});
