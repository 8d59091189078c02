import { createRequire } from "node:module";
import { Kysely, PostgresDialect } from "kysely";
import postgres from "postgres";
import { afterAll, beforeAll, expect, it } from "vitest";
import { debit, debitNow } from "../../examples/debit.ts";
import {
  LockNotAvailableError,
  tryRowLock,
  type UserTransaction,
  withAdvisoryXact,
  withRowLock,
} from "../../src/drivers/postgres/index.ts";
import { InvalidArgumentError, UnsupportedError } from "../../src/index.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { openPrisma } from "../fixtures/prisma.ts";

/** A database of Drizzle, which only the tests install. */
interface Drizzle {
  transaction<T>(body: (tx: UserTransaction) => Promise<T>): Promise<T>;
}

/** `over`: `"node-postgres"` or `"postgres-js"`, and a client of that library. */
function drizzle(over: string, client: unknown): Drizzle {
  const load = createRequire(new URL("../servers/package.json", import.meta.url));
  const made = load(`drizzle-orm/${over}`) as { drizzle(client: unknown): Drizzle };
  return made.drizzle(client);
}

/** Prisma gives a transaction up after 5 s, and one that waits for a session after 2 s, if it is told nothing else. */
const PATIENT = { maxWait: 60_000, timeout: 60_000 };

/** Runs `body` in a transaction of one library, which commits it. */
type Begin = <T>(body: (transaction: UserTransaction) => Promise<T>) => Promise<T>;

describePostgres("locks of a transaction on PostgreSQL", () => {
  let server: PostgresServer;
  const ends: (() => Promise<unknown>)[] = [];
  const begins: Record<string, Begin> = {};
  beforeAll(async () => {
    server = await PostgresServer.start();
    await server.query("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)");
    await server.query("INSERT INTO accounts SELECT i, 0 FROM generate_series(1, 40) AS i");
    const pool = server.pool();
    const sql = postgres(server.url, { max: 10, onnotice: () => undefined });
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool: server.pool() }) });
    const prisma = await openPrisma(server.url);
    ends.push(
      async () => pool.end(),
      async () => sql.end(),
      async () => db.destroy(),
      async () => prisma.$disconnect(),
    );
    begins["pg"] = async (body) => {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const value = await body(client);
        await client.query("COMMIT");
        return value;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    };
    begins["postgres.js"] = async (body) => (await sql.begin(async (tx) => body(tx))) as never;
    begins["kysely"] = async (body) => db.transaction().execute(async (tx) => body(tx));
    const [overPg, overJs] = [drizzle("node-postgres", pool), drizzle("postgres-js", sql)];
    begins["drizzle on pg"] = async (body) => overPg.transaction(body);
    begins["drizzle on postgres.js"] = async (body) => overJs.transaction(body);
    begins["prisma"] = async (body) => prisma.$transaction(body, PATIENT);
  });
  afterAll(async () => {
    for (const end of ends) await end();
    await server.stop();
  });

  const orms = ["kysely", "drizzle on pg", "drizzle on postgres.js", "prisma"];
  const libraries = ["pg", "postgres.js", ...orms];
  for (const [at, library] of libraries.entries()) {
    const begin: Begin = async (body) => {
      const chosen = begins[library];
      if (chosen === undefined) throw new Error(`no ${library}`);
      return chosen(body);
    };
    const row = (id: number) => ({ table: "accounts", where: { id: id + 5 * at } });

    it(`read, add one, write under a row lock loses nothing (${library})`, async () => {
      const add = async (): Promise<void> =>
        begin(async (transaction) =>
          withRowLock(transaction, row(1), async (account) => {
            await server.query("SELECT pg_sleep(0.005)");
            await update(transaction, row(1).where.id, Number(account?.["balance"]) + 1);
            return undefined;
          }),
        );
      await Promise.all(Array.from({ length: 20 }, add));
      const [found] = await server.query("SELECT balance FROM accounts WHERE id = $1", [
        row(1).where.id,
      ]);
      expect(found).toEqual({ balance: 20 });
    });

    it(`a transaction's advisory lock keeps others out until it has committed (${library})`, async () => {
      const order: string[] = [];
      let inside = (): void => undefined;
      const entered = new Promise<void>((resolve) => (inside = resolve));
      const first = begin(async (transaction) => {
        await withAdvisoryXact(transaction, `job ${library}`, async () => {
          order.push("first in");
          inside();
        });
        // The body is over, the transaction is not.
        await server.query("SELECT pg_sleep(0.1)");
        order.push("first ends");
      });
      await entered;
      await expect(
        begin(async (transaction) =>
          withAdvisoryXact(transaction, `job ${library}`, async () => undefined, { wait: false }),
        ),
      ).rejects.toThrow(LockNotAvailableError);
      const second = begin(async (transaction) =>
        withAdvisoryXact(transaction, `job ${library}`, async () => {
          order.push("second in");
        }),
      );
      await Promise.all([first, second]);
      expect(order).toEqual(["first in", "first ends", "second in"]);
    });

    it(`examples/debit.ts overdraws no account (${library})`, async () => {
      const { id } = row(4).where;
      await server.query("UPDATE accounts SET balance = 7 WHERE id = $1", [id]);
      const take = async (): Promise<unknown> =>
        begin(async (tx) => debit(tx, id, 2, async (left) => update(tx, id, left)));
      const outcomes = await Promise.all(Array.from({ length: 6 }, take));
      expect(outcomes.filter((outcome) => outcome !== "too little").sort()).toEqual([1, 3, 5]);
      await begin(async (one) => {
        await debit(one, id, 1, async (left) => update(one, id, left));
        const now = begin(async (two) => debitNow(two, id, 1, async () => undefined));
        expect(await now).toBe("busy");
      });
    });

    it(`a busy row is told at once, and the transaction goes on (${library})`, async () => {
      await begin(async (one) => {
        await withRowLock(one, row(2), async () => undefined);
        await begin(async (two) => {
          expect(await tryRowLock(two, row(2))).toBe("busy");
          expect(await tryRowLock(two, row(2), { how: "skip-locked" })).toBe("busy");
          expect(await tryRowLock(two, row(3))).toMatchObject({ balance: 0 });
          expect(await tryRowLock(two, { table: "accounts", where: { id: 1000 } })).toBe(undefined);
        });
      });
    });
  }

  it("what is no transaction is refused: the lock would be gone with the statement that took it", async () => {
    const pool = server.pool();
    const client = await pool.connect();
    const sql = postgres(server.url, { max: 1 });
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
    const prisma = await openPrisma(server.url);
    const orms = [db, drizzle("node-postgres", pool), drizzle("postgres-js", sql), prisma];
    const none: unknown[] = [pool, client, sql, ...orms, {}];
    for (const each of none)
      await expect(
        withAdvisoryXact(each as UserTransaction, "job", async () => undefined),
      ).rejects.toThrow(InvalidArgumentError);
    client.release();
    await sql.end();
    await db.destroy();
    await prisma.$disconnect();
  });

  it("an older snapshot is refused: under the lock it would read what was there before", async () => {
    const pool = server.pool();
    const client = await pool.connect();
    for (const level of ["REPEATABLE READ", "SERIALIZABLE"]) {
      await client.query(`BEGIN ISOLATION LEVEL ${level}`);
      await expect(withAdvisoryXact(client, "job", async () => undefined)).rejects.toThrow(
        UnsupportedError,
      );
      await client.query("ROLLBACK");
    }
    client.release();
    await pool.end();
    const prisma = await openPrisma(server.url);
    const older = { ...PATIENT, isolationLevel: "RepeatableRead" };
    const begun = prisma.$transaction(
      async (tx) => withAdvisoryXact(tx, "job", async () => undefined),
      older,
    );
    await expect(begun).rejects.toThrow(UnsupportedError);
    await prisma.$disconnect();
  });
});

async function update(transaction: UserTransaction, id: number, balance: number): Promise<void> {
  const text = `UPDATE accounts SET balance = ${balance} WHERE id = ${id}`;
  if ("$queryRawUnsafe" in transaction) await transaction.$queryRawUnsafe(text);
  else if ("unsafe" in transaction) await transaction.unsafe(text, []);
  else if ("execute" in transaction) await transaction.execute(text as never);
  else if ("query" in transaction) await transaction.query(text, []);
  else {
    const { CompiledQuery } = await import("kysely");
    await transaction.executeQuery(CompiledQuery.raw(text) as never);
  }
}
