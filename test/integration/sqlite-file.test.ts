import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import type { Granted, Notice } from "../../src/core/driver.ts";
import { loadClient, type SqliteDatabase } from "../../src/drivers/sqlite/client.ts";
import { fileSystemOf } from "../../src/drivers/sqlite/file.ts";
import { sqliteDriver, sqliteSchema } from "../../src/drivers/sqlite/index.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { ask, Bench, context, io, newPath, ref, temporaryFolder } from "../fixtures/sqlite.ts";

async function raw(path: string): Promise<SqliteDatabase> {
  return (await loadClient()).open(path);
}

function removeDatabase(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

it("makes the folder for its owner alone, and the file too", async () => {
  const path = join(temporaryFolder(), "deep", "er", "locks.db");
  const backend = await sqliteDriver(path).open(context(new FakeClock(), "p1"));
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  await backend.attempt(ask("a", "g1"), io);
  expect(statSync(`${path}-wal`).mode & 0o777).toBe(0o600);
  await backend.close();
  // No draft of the file, and no folder of bells: nobody waited.
  const left = readdirSync(dirname(path)).filter((name) => !/-(wal|shm)$/.test(name));
  expect(left).toEqual(["locks.db"]);
});

it("a deleted file loses its holders at their next step, and later tokens still rise (S59)", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const before = (await one.attempt(ask("a", "g1"), io)) as Granted;
  await one.attempt(ask("b", "g2"), io);
  removeDatabase(bench.path);
  bench.clock.step(1);
  expect(await one.renew([ref("a", "g1")], io)).toEqual([{ kind: "gone", reason: "taken" }]);
  expect(bench.notices).toEqual([{ kind: "gone", grantIds: "all", reason: "taken" }]);
  const after = (await one.attempt(ask("a", "g3"), io)) as Granted;
  expect(after.tokens?.first).toBeGreaterThan(before.tokens?.first ?? 0n);
  expect(await one.release([ref("b", "g2")], io)).toEqual([{ kind: "gone", reason: "taken" }]);
  expect(await one.release([ref("a", "g3")], io)).toEqual([{ kind: "released" }]);
  expect(bench.notices).toHaveLength(1);
  await bench.close();
});

it("a replaced file excludes by what the new one says (S59)", async () => {
  const bench = new Bench();
  const [one, other] = [await bench.open("p1"), new Bench()];
  await one.attempt(ask("a", "g1"), io);
  const two = await other.open("p2");
  await two.attempt(ask("a", "g2"), io);
  const db = await raw(other.path);
  db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get({});
  db.close();
  removeDatabase(bench.path);
  copyFileSync(other.path, bench.path);
  expect(await one.attempt(ask("a", "g3", { join: "no" }), io)).toMatchObject({
    kind: "busy",
    holder: "holder of g2",
  });
  expect(await one.renew([ref("a", "g1")], io)).toEqual([{ kind: "gone", reason: "taken" }]);
  await bench.close();
  await other.close();
});

it("a file that was moved away and back in one go is the same file", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  await one.attempt(ask("a", "g1"), io);
  renameSync(bench.path, `${bench.path}.aside`);
  renameSync(`${bench.path}.aside`, bench.path);
  expect(await one.renew([ref("a", "g1")], io)).toEqual([{ kind: "renewed", ttlMs: 10_000 }]);
  await bench.close();
});

it("closing the old file after it was replaced leaves the new one whole", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  await one.attempt(ask("a", "g1"), io);
  removeDatabase(bench.path);
  const two = await bench.open("p2");
  await two.attempt(ask("a", "g2"), io);
  await one.close();
  const three = await bench.open("p3");
  expect(await three.attempt(ask("a", "g3"), io)).toMatchObject({ holder: "holder of g2" });
  await bench.close();
});

it("a handed-in connection whose file was deleted loses its holders, and says what to do", async () => {
  const path = newPath();
  const db = await raw(path);
  const notices: Notice[] = [];
  const backend = await sqliteDriver(db).open(context(new FakeClock(), "p1", { notices }));
  await backend.attempt(ask("a", "g1"), io);
  removeDatabase(path);
  expect(await backend.renew([ref("a", "g1")], io)).toEqual([{ kind: "gone", reason: "taken" }]);
  await expect(backend.attempt(ask("a", "g2"), io)).rejects.toMatchObject({ kind: "config" });
  await backend.close();
  // Whoever made the connection closes it.
  expect(db.prepare("SELECT 1 AS one").get({})).toMatchObject({ one: 1 });
  db.close();
});

it("a handed-in connection within the user's transaction is refused, and nothing is written", async () => {
  const db = await raw(newPath());
  const backend = await sqliteDriver(db).open(context(new FakeClock(), "p1"));
  db.exec("BEGIN");
  const busy = { kind: "busy", outcome: "not-applied" };
  await expect(backend.attempt(ask("a", "g1"), io)).rejects.toMatchObject(busy);
  db.exec("ROLLBACK");
  expect(await backend.attempt(ask("a", "g1"), io)).toMatchObject({ kind: "granted" });
  db.close();
});

it("a newer format is refused", async () => {
  const bench = new Bench();
  await (await bench.open("p1")).close();
  const db = await raw(bench.path);
  db.exec("UPDATE ringfence_meta SET format = 2");
  db.close();
  await expect(bench.open("p2")).rejects.toMatchObject({
    kind: "config",
    message: expect.stringContaining("format 2") as string,
  });
});

it("what is no database, a folder, or a file in the way of the folder is a config error", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "text"), "no database at all ".repeat(100));
  mkdirSync(join(folder, "folder"));
  for (const path of ["text", "folder", "text/locks.db"]) {
    const driver = sqliteDriver(join(folder, path));
    const opening = driver.open(context(new FakeClock(), "p1"));
    await expect(opening, path).rejects.toMatchObject({ name: "DriverError", kind: "config" });
  }
  expect(readFileSync(join(folder, "text"), "utf8")).toMatch(/^no database/);
});

it("without autoCreate neither file nor tables are made, and printed statements are enough", async () => {
  const path = newPath();
  const driver = sqliteDriver(path, { autoCreate: false, tablePrefix: "mine_" });
  const config = { kind: "config", message: expect.stringContaining("ringfence schema") as string };
  await expect(driver.open(context(new FakeClock(), "p1"))).rejects.toMatchObject(config);
  expect(existsSync(path)).toBe(false);
  const db = await raw(path);
  db.exec("CREATE TABLE other (x)");
  await expect(driver.open(context(new FakeClock(), "p1"))).rejects.toMatchObject(config);
  db.exec(sqliteSchema({ tablePrefix: "mine_" }));
  db.exec(sqliteSchema({ tablePrefix: "mine_" }));
  db.close();
  const backend = await driver.open(context(new FakeClock(), "p1"));
  expect(await backend.attempt(ask("a", "g1"), io)).toMatchObject({ kind: "granted" });
  await backend.close();
});

it("two prefixes, and two namespaces, in one file do not meet", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const two = await bench.open("p2", { tablePrefix: "other_" });
  const apart = context(bench.clock, "p3", { namespace: "apart" });
  const three = await sqliteDriver(bench.path).open(apart);
  for (const backend of [one, two, three])
    expect(await backend.attempt(ask("a", "g"), io)).toMatchObject({ kind: "granted" });
  expect(await three.list({ prefix: "", limit: 10 }, io)).toEqual({ names: ["a"] });
  await three.close();
  await bench.close();
});

it("a full database is an outage that changes nothing, and is over when there is room", async () => {
  const path = newPath();
  const db = await raw(path);
  const backend = await sqliteDriver(db).open(context(new FakeClock(), "p1"));
  const pages = Object.values(db.prepare("PRAGMA page_count").get({}) as object)[0] as number;
  db.prepare(`PRAGMA max_page_count = ${pages}`).get({});
  const holder = "x".repeat(5000);
  await expect(backend.attempt(ask("a", "g1", { holder }), io)).rejects.toMatchObject({
    name: "DriverError",
    kind: "unavailable",
    outcome: "not-applied",
  });
  db.prepare("PRAGMA max_page_count = 100000").get({});
  expect(await backend.attempt(ask("a", "g2"), io)).toMatchObject({ kind: "granted" });
  db.close();
});

it("another writer's transaction makes a step busy, not wrong", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const db = await raw(bench.path);
  db.exec("BEGIN IMMEDIATE");
  const busy = { name: "DriverError", kind: "busy", outcome: "not-applied" };
  await expect(one.attempt(ask("a", "g1"), io)).rejects.toMatchObject(busy);
  db.exec("COMMIT");
  db.close();
  expect(await one.attempt(ask("a", "g1"), io)).toMatchObject({ kind: "granted" });
  await bench.close();
});

it("durability full really sets the connection, in types and values", async () => {
  const full = sqliteDriver(newPath(), { durability: "full" });
  const declared: "durable" = full.fencing;
  const volatile: "volatile" = sqliteDriver(newPath()).fencing;
  expect([declared, volatile]).toEqual(["durable", "volatile"]);
  const backend = await full.open(context(new FakeClock(), "p1"));
  const settings = await backend.probe(io);
  expect(settings).toContainEqual({ name: "synchronous", value: "full", verdict: "ok" });
  expect(settings).toContainEqual({ name: "journal_mode", value: "wal", verdict: "ok" });
  await backend.close();

  const db = await raw(newPath());
  db.exec("PRAGMA synchronous = NORMAL");
  const handed = await sqliteDriver(db, { durability: "full" }).open(
    context(new FakeClock(), "p1"),
  );
  expect(Object.values(db.prepare("PRAGMA synchronous").get({}) as object)[0]).toBe(2);
  db.exec("PRAGMA synchronous = OFF");
  expect(await handed.probe(io)).toContainEqual(
    expect.objectContaining({ name: "synchronous", value: "off", verdict: "refuse" }),
  );
  db.close();
});

it("bells of processes that are gone are removed, and those of waiting ones are kept", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  await one.attempt(ask("a", "g1"), io);
  await one.attempt(ask("a", "g2"), io);
  const bells = `${bench.path}-bells`;
  for (const name of ["dead", "fresh"]) writeFileSync(join(bells, name), "");
  const old = bench.clock.wall() / 1000 - 61;
  for (const name of ["dead", "p1"]) utimesSync(join(bells, name), old, old);
  const fresh = bench.clock.wall() / 1000;
  utimesSync(join(bells, "fresh"), fresh, fresh);
  await bench.open("p2");
  expect(readdirSync(bells).sort()).toEqual(["fresh", "p1"]);
  await bench.close();
  expect(readdirSync(bells)).toEqual(["fresh"]);
});

it("knows network file systems from local ones and from those that nobody can tell", () => {
  const kind = (type: number, platform = "linux") => fileSystemOf(type, platform).sharing;
  expect([0xef53, 0x794c7630, 0x01021994, 0x58465342, 0x9123683e].map((t) => kind(t))).toEqual(
    Array.from({ length: 5 }, () => "local"),
  );
  // Some systems answer with the sign bit set.
  expect([0x6969, 0xff534d42, 0xff534d42 | 0, 0x517b].map((t) => kind(t))).toEqual(
    Array.from({ length: 4 }, () => "network"),
  );
  expect([0x01021997, 0x65735546, 0x12345].map((t) => kind(t))).toEqual(
    Array.from({ length: 3 }, () => "unknown"),
  );
  expect(kind(0xef53, "darwin")).toBe("unknown");
});

it("refuses paths and options that cannot be meant", () => {
  const bad = [
    () => sqliteDriver(":memory:"),
    () => sqliteDriver(""),
    () => sqliteDriver("file:locks.db"),
    () => sqliteDriver({} as SqliteDatabase),
    () => sqliteDriver("x", { tablePrefix: "a; DROP" }),
    () => sqliteDriver("x", { durability: "most" as "full" }),
    () => sqliteDriver("x", { durabilty: "full" } as object),
  ];
  for (const make of bad)
    expect(make).toThrow(expect.objectContaining({ code: "ERR_INVALID_ARGUMENT" }) as Error);
});
