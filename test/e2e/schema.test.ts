import { expect, it } from "vitest";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { buildFirst, place, ringfence } from "./ringfence.ts";

buildFirst();
const { env } = place();

it("prints the tables of a store without connecting, and refuses one that has none", async () => {
  const url = "postgres://nobody@nowhere.invalid/app?schema=our%20locks";
  const printed = await ringfence(["schema", "print", "--store", url], { env });
  expect([printed.code, printed.stderr]).toEqual([0, ""]);
  expect(printed.stdout).toContain('CREATE SCHEMA IF NOT EXISTS "our locks";');
  expect(printed.stdout).toContain('CREATE TABLE IF NOT EXISTS "our locks"."ringfence_locks"');
  const mysql = "mysql://nobody@nowhere.invalid/app?tablePrefix=our%20";
  const others = await ringfence(["schema", "print", "--store", mysql], { env });
  expect([others.code, others.stderr]).toEqual([0, ""]);
  expect(others.stdout).toContain("CREATE TABLE IF NOT EXISTS `our locks` (");
  const sqlite = await ringfence(["schema", "print"], { env });
  expect(sqlite.stdout).toContain("CREATE TABLE IF NOT EXISTS ringfence_locks");
  const none = await ringfence(["schema", "print", "--store", "redis://u:hunter2@h"], { env });
  expect(none.code).toBe(64);
  expect(none.stderr).not.toContain("hunter2");
});

describePostgres("schema apply", () => {
  it("makes the tables, again too, and a lock works with autoCreate=false", async () => {
    const server = stopAfter(await PostgresServer.start({ fsync: "on" }));
    const store = { ...env, RINGFENCE_STORE: `${server.url}?schema=locks&autoCreate=false` };
    const run = ["run", "job", "--", "true"];
    expect((await ringfence(run, { env: store })).code).toBe(78);
    const apply = async (): Promise<unknown> => {
      const { code, stderr } = await ringfence(["schema", "apply"], { env: store });
      return [code, stderr];
    };
    expect([await apply(), await apply()]).toEqual([
      [0, ""],
      [0, ""],
    ]);
    const held = await ringfence(run, { env: store });
    expect([held.code, held.stderr]).toEqual([0, ""]);
  });
});
