import { chmodSync, closeSync, openSync, statSync, writeSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadClient, type SqliteDatabase } from "../../src/drivers/sqlite/client.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import {
  BackendConfigError,
  BackendUnavailableError,
  createLockManager,
  type LockManager,
} from "../../src/index.ts";
import { ask, Bench, io, newPath, Worker } from "../fixtures/sqlite.ts";
import { rejection } from "../fixtures/world.ts";

// What a user sees of a file that cannot be used: a typed error that names the file and says what to do.

async function raw(path: string): Promise<SqliteDatabase> {
  return (await loadClient()).open(path);
}

async function fileWithLocks(): Promise<string> {
  const bench = new Bench();
  const backend = await bench.open("p1");
  await backend.attempt(ask("a", "g1"), io);
  await backend.close();
  // All into the file itself, so that there is something to damage.
  const db = await raw(bench.path);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  db.close();
  return bench.path;
}

function said(error: unknown, what: RegExp): void {
  expect((error as Error).message).toMatch(what);
}

describe("a damaged file", () => {
  it("is a config error that says to move it away, for every call", async () => {
    const path = await fileWithLocks();
    const file = openSync(path, "r+");
    const size = statSync(path).size;
    // Behind the first page, which says that it is a database and what is in it.
    for (let at = 4096; at < size; at += 4096)
      writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, at);
    closeSync(file);
    const manager: LockManager = createLockManager(sqliteDriver(path));
    for (const call of [
      async () => manager.acquire("a"),
      async () => manager.tryAcquire("a"),
      async () => manager.inspect("a"),
    ]) {
      const error = await rejection(call());
      expect(error).toBeInstanceOf(BackendConfigError);
      said(error, /damaged; stop all users, move it away/);
      said(error, new RegExp(path));
    }
    await manager.close();
  });
});

describe("a file that this user may not read", () => {
  it("is a config error that says to look at its owner and mode", async () => {
    const path = newPath();
    const worker = await Worker.start({ path });
    await worker.call("open");
    chmodSync(path, 0o000);
    // Root may read whatever its mode says: there it takes another user.
    const root = process.getuid?.() === 0;
    const other = await Worker.start({ path }, root ? { uid: 65_534, gid: 65_534 } : undefined);
    const refusal = { code: "config", message: expect.stringMatching(/owner and mode/) as string };
    await expect(other.call("open")).rejects.toMatchObject(refusal);
  });
});

describe("a file that another program keeps locked", () => {
  it("is an outage that names the cause, not a busy lock, and is over with the other's transaction", async () => {
    const path = newPath();
    const manager = createLockManager(sqliteDriver(path));
    await (await manager.acquire("a")).release();
    const db = await raw(path);
    db.exec("BEGIN IMMEDIATE");
    for (const wait of [0, 1200]) {
      const error = await rejection(manager.acquire("a", { wait }));
      expect(error).toBeInstanceOf(BackendUnavailableError);
      said(error, /another process is writing/);
    }
    const waiting = manager.acquire("a", { wait: "20s" });
    setTimeout(() => {
      db.exec("ROLLBACK");
      db.close();
    }, 200);
    expect((await waiting).state).toBe("held");
    await manager.close();
  });
});
