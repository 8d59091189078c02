import { join } from "node:path";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  BackendConfigError,
  BackendError,
  BackendUnavailableError,
  InvalidArgumentError,
  LeaseLostError,
  StaleTokenError,
} from "../../src/core/errors.ts";
import type { Credential } from "../../src/core/guard.ts";
import type { FencedLease } from "../../src/core/lease.ts";
import type { GuardBinding } from "../../src/core/lock-manager.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import {
  type SqliteConnection,
  sqliteGuard,
  sqliteGuardSchema,
} from "../../src/guards/sqlite/index.ts";
import { createLockManager } from "../../src/index.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { temporaryFolder } from "../support/guard-fixtures.ts";

let folder: ReturnType<typeof temporaryFolder>;
let db: Database.Database;
let other: Database.Database;
const holder = (token: bigint): Credential => ({
  token,
  grantId: token.toString().padStart(27, "g"),
  scope: "s".repeat(27),
  trust: true,
});

/** A lease that is over at a moment of the monotonic clock. */
function leaseUntil(endMs: number): FencedLease {
  const remainingMs = (): number => Math.max(0, endMs - systemClock.mono());
  return {
    mode: "exclusive",
    token: 5n,
    grantId: "l".repeat(27),
    scope: "s".repeat(27),
    remainingMs,
    assertHeld() {
      if (remainingMs() === 0) throw new LeaseLostError("name", "expired", 5n);
    },
  } as unknown as FencedLease;
}

function open(): Database.Database {
  const connection = new Database(join(folder.path, "data.db"));
  connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;");
  return connection;
}

beforeEach(() => {
  folder = temporaryFolder();
  db = open();
  other = open();
  db.exec("CREATE TABLE data (value TEXT)");
});
afterEach(() => {
  db.close();
  other.close();
  folder.remove();
});

describe("transactions", () => {
  const guard = sqliteGuard();

  it("refuses to open one inside the user's, and leaves that alone", async () => {
    db.exec("BEGIN");
    db.exec("INSERT INTO data VALUES ('mine')");
    await expect(guard.run(db, "r", holder(1n), () => 1)).rejects.toThrow(/open transaction/);
    await expect(guard.claim(db, "r", holder(1n))).rejects.toThrow(InvalidArgumentError);
    db.exec("COMMIT");
    expect(db.prepare("SELECT * FROM data").all()).toHaveLength(1);
  });

  it("says the same where the client cannot tell whether one is open", async () => {
    const silent: SqliteConnection = {
      exec: (sql) => db.exec(sql),
      prepare: (sql) => db.prepare(sql),
    };
    await guard.claim(silent, "r", holder(1n));
    db.exec("BEGIN");
    await expect(guard.claim(silent, "r", holder(2n))).rejects.toThrow(/open transaction/);
    db.exec("ROLLBACK");
    await expect(
      guard.run(silent, "r", holder(2n), () => {
        throw new Error("the body's own");
      }),
    ).rejects.toThrow("the body's own");
    await guard.claim(silent, "r", holder(3n));
  });

  it("refuses a verify outside of one", async () => {
    await guard.claim(db, "r", holder(1n));
    expect(() => {
      guard.verify(db, "r", holder(1n));
    }).toThrow(/open transaction/);
  });

  it("refuses a body that ends it", async () => {
    await expect(
      guard.run(db, "r", holder(1n), (tx) => {
        tx.exec("COMMIT");
      }),
    ).rejects.toThrow(/leave the transaction open/);
  });

  it("fails a verify on an old snapshot with a typed error, and the writes with it", async () => {
    await guard.claim(db, "r", holder(1n));
    db.exec("BEGIN");
    db.prepare("SELECT * FROM data").all();
    await guard.claim(other, "r", holder(2n));
    expect(() => {
      guard.verify(db, "r", holder(1n));
    }).toThrow(BackendUnavailableError);
    db.exec("ROLLBACK");
  });
});

describe("a database that another connection holds locked", () => {
  const guard = sqliteGuard();

  it("is waited for, without blocking, until it is free", async () => {
    other.exec("BEGIN IMMEDIATE");
    const claimed = guard.claim(db, "r", holder(1n));
    await new Promise((resolve) =>
      systemClock.timer(60, () => {
        resolve(null);
      }),
    );
    other.exec("COMMIT");
    await claimed;
    db.exec("BEGIN IMMEDIATE");
    guard.verify(db, "r", holder(1n));
    db.exec("COMMIT");
  });

  it("is waited for no longer than the lease lasts, which then is lost", async () => {
    other.exec("BEGIN IMMEDIATE");
    const started = systemClock.mono();
    await expect(guard.claim(db, "r", leaseUntil(started + 150))).rejects.toThrow(LeaseLostError);
    expect(systemClock.mono() - started).toBeGreaterThanOrEqual(150);
    other.exec("ROLLBACK");
    await guard.claim(db, "r", holder(1n));
  });

  it("ends the wait of a renewed lease with a typed error that says it was not applied", async () => {
    other.exec("BEGIN IMMEDIATE");
    let left = 120;
    const lease = {
      ...leaseUntil(Infinity),
      remainingMs: () => left,
      assertHeld() {
        left = 30_000;
      },
    } as FencedLease;
    const error: unknown = await guard.claim(db, "r", lease).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendUnavailableError);
    expect(error).toMatchObject({ operation: "claim", outcome: "not-applied" });
    other.exec("ROLLBACK");
  });
});

describe("the tables", () => {
  it("can be made beforehand, and are asked for by their SQL where they must be", async () => {
    const guard = sqliteGuard({ autoCreate: false, table: "my guard" });
    const error: unknown = await guard
      .claim(db, "r", holder(1n))
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendConfigError);
    const sql = sqliteGuardSchema("my guard");
    expect((error as Error).message).toContain(sql);
    db.exec(sql);
    db.exec(sql);
    await guard.claim(db, "r", holder(1n));
  });

  it("survive a first use that was rolled back", async () => {
    const guard = sqliteGuard();
    await expect(
      guard.run(db, "r", holder(1n), () => {
        throw new Error("no");
      }),
    ).rejects.toThrow("no");
    await guard.claim(db, "r", holder(1n));
  });

  it("may have any name, and are refused in a later format", async () => {
    const guard = sqliteGuard({ table: 'it\'s "odd"; --' });
    await guard.claim(db, "r", holder(1n));
    await expect(guard.claim(db, "r", holder(0n))).rejects.toThrow(InvalidArgumentError);
    const floors = '"it\'s ""odd""; --_floors"';
    db.exec(`UPDATE ${floors} SET token = 2 WHERE scope = ''`);
    await expect(guard.claim(other, "r", holder(2n))).rejects.toThrow(BackendConfigError);
    for (const table of ["", "a\0b", 7 as unknown as string])
      expect(() => sqliteGuard({ table })).toThrow(InvalidArgumentError);
  });

  it("store every token as an integer, exactly", async () => {
    const guard = sqliteGuard();
    for (const token of [1n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 62n - 1n]) {
      await guard.claim(db, "r", holder(token));
      const row = db
        .prepare("SELECT typeof(token) AS type, CAST(token AS TEXT) AS text FROM ringfence_guard")
        .all()[0];
      expect(row).toMatchObject({ type: "integer", text: token.toString() });
    }
  });

  it("turn failures of their own statements into typed errors", async () => {
    const guard = sqliteGuard();
    await guard.claim(db, "r", holder(1n));
    db.exec("DROP TABLE ringfence_guard");
    const error: unknown = await guard
      .claim(db, "r", holder(2n))
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendError);
    expect(error).toMatchObject({ operation: "claim", outcome: "not-applied" });
  });
});

describe("conditions for rows", () => {
  it("quote the columns that they are given", () => {
    const columns = { token: 'to"ken', grant: "grant", scope: "s" };
    const { text, params } = sqliteGuard({ columns }).predicate(holder(7n));
    expect(text).toBe('("s" = ? AND "to""ken" = CAST(? AS INTEGER) AND "grant" = ?)');
    expect(params).toEqual(["s".repeat(27), "7", "7".padStart(27, "g")]);
    expect(() => sqliteGuard({ columns: { token: "" } })).toThrow(InvalidArgumentError);
  });
});

it("speaks to node:sqlite's shape as to the others", async () => {
  const numbered = (error: unknown): Error =>
    Object.assign(new Error("node:sqlite"), {
      code: "ERR_SQLITE_ERROR",
      errcode: (error as { rawCode: number }).rawCode,
    });
  const shaped: SqliteConnection = {
    get isTransaction() {
      return db.inTransaction;
    },
    exec(sql) {
      try {
        db.exec(sql);
      } catch (error) {
        throw numbered(error);
      }
    },
    prepare: (sql) => db.prepare(sql),
  };
  const guard = sqliteGuard();
  other.exec("BEGIN IMMEDIATE");
  const claimed = guard.claim(shaped, "r", holder(2n));
  await new Promise((resolve) =>
    systemClock.timer(30, () => {
      resolve(null);
    }),
  );
  other.exec("COMMIT");
  await claimed;
  await expect(guard.claim(shaped, "r", holder(1n))).rejects.toThrow(StaleTokenError);
});

it("is what `request` takes as its guard", async () => {
  const guard: GuardBinding<Database.Database, Database.Database> = { guard: sqliteGuard(), db };
  const locks = createLockManager(memoryDriver());
  const seen = await locks.request("r", { guard }, (lease, tx) => [lease.name, tx === db]);
  expect(seen).toEqual(["r", true]);
  await locks.close();
});
