import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  BackendConfigError,
  IdempotencyConflictError,
  IdempotencyInProgressError,
  InvalidArgumentError,
} from "../../src/core/errors.ts";
import {
  createIdempotencyTable,
  type IdempotentOptions,
  idempotent,
  type Queries,
  sweepIdempotency,
} from "../../src/guards/idempotency/index.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import {
  mysqlWorld,
  pgWorld,
  postgresJsWorld,
  sqliteWorld,
  type Tx,
  type World,
} from "../support/idempotency-worlds.ts";

type Loose = (
  tx: Queries,
  key: string,
  request: unknown,
  fn: () => unknown,
  options?: IdempotentOptions,
) => unknown;

/** The overloads tell clients apart by type; these tests run over all of them. */
const loose = idempotent as unknown as Loose;

const REQUEST = { from: "alice", cents: 300 };

function promises(open: () => Promise<World>): void {
  let world: World;

  beforeAll(async () => {
    world = await open();
    await createIdempotencyTable(world.db);
    await world.transaction((tx) => tx.run("CREATE TABLE ledger (id VARCHAR(40), cents INT)"));
  });
  afterAll(async () => {
    await world.close();
  });
  beforeEach(async () => {
    await world.transaction((tx) => tx.run("DELETE FROM ledger"));
    await world.transaction((tx) => tx.run("DELETE FROM ringfence_idempotency"));
  });

  const ledger = async (): Promise<unknown[]> => world.rows("SELECT cents FROM ledger");
  const debit =
    (tx: Tx, response: unknown = { balance: 700 }) =>
    (): unknown => {
      const done = tx.run("INSERT INTO ledger VALUES (?, ?)", "debit", 300);
      return done instanceof Promise ? done.then(() => response) : response;
    };
  const call = async (
    key: string,
    request: unknown = REQUEST,
    response?: unknown,
    options?: IdempotentOptions,
  ): Promise<unknown> =>
    world.transaction((tx) => loose(tx.client, key, request, debit(tx, response), options));

  it("runs the effect once per key, and gives every later call the first response", async () => {
    expect(await call("k1")).toEqual({ balance: 700 });
    expect(await call("k1", { cents: 300, from: "alice" }, { balance: 0 })).toEqual({
      balance: 700,
    });
    expect(await call("k2", REQUEST, null)).toBe(null);
    expect(await call("k2", REQUEST, 1)).toBe(null);
    expect(await ledger()).toEqual([{ cents: 300 }, { cents: 300 }]);
  });

  it("refuses another request under the same key", async () => {
    await call("k1");
    await expect(call("k1", { ...REQUEST, cents: 301 })).rejects.toThrow(IdempotencyConflictError);
    expect(await ledger()).toHaveLength(1);
  });

  it("tells keys apart that differ in case or in a trailing blank", async () => {
    for (const key of ["k", "K", "k "]) await call(key);
    expect(await ledger()).toHaveLength(3);
  });

  it("leaves neither key nor effect when the effect throws, even if the caller commits after that", async () => {
    const problem = new Error("no");
    await world.transaction((tx) => {
      const fail = (): unknown => {
        const done = debit(tx)();
        if (!(done instanceof Promise)) throw problem;
        return done.then(() => {
          throw problem;
        });
      };
      const swallow = (error: unknown): void => {
        expect(error).toBe(problem);
      };
      try {
        const done = loose(tx.client, "k1", REQUEST, fail);
        return done instanceof Promise ? done.catch(swallow) : done;
      } catch (error) {
        swallow(error);
        return;
      }
    });
    expect(await ledger()).toHaveLength(0);
    expect(await call("k1")).toEqual({ balance: 700 });
  });

  it("leaves neither when the transaction is rolled back", async () => {
    const stop = (): never => {
      throw new Error("stop");
    };
    // Not async: SQLite's transaction ends with its body, and a promise would be rejected after that.
    const work = (tx: Tx): unknown => {
      const done = loose(tx.client, "k1", REQUEST, debit(tx));
      return done instanceof Promise ? done.then(stop) : stop();
    };
    await expect(world.transaction(work)).rejects.toThrow("stop");
    expect(await ledger()).toHaveLength(0);
    await call("k1");
    expect(await ledger()).toHaveLength(1);
  });

  it("keeps keys until they are swept, and then runs again", async () => {
    await call("k1");
    expect(await sweepIdempotency(world.db, new Date(Date.now() - 60_000))).toBe(0);
    await call("k1");
    expect(await ledger()).toHaveLength(1);
    expect(await sweepIdempotency(world.db, new Date(Date.now() + 60_000))).toBe(1);
    await call("k1");
    expect(await ledger()).toHaveLength(2);
  });

  it("refuses impossible keys, pools, and responses that JSON cannot hold", async () => {
    for (const key of ["", "x".repeat(256), "a\0b", 7 as unknown as string])
      await expect(call(key)).rejects.toThrow(InvalidArgumentError);
    await expect(call("k1", REQUEST, 10n)).rejects.toThrow(InvalidArgumentError);
    expect(await ledger()).toHaveLength(0);
    await expect((async () => loose(world.db, "k1", REQUEST, () => 1))()).rejects.toThrow(
      InvalidArgumentError,
    );
  });

  it("says how to create a table that is missing", async () => {
    const missing = call("k1", REQUEST, 1, { table: "nothing_here" });
    await expect(missing).rejects.toThrow(BackendConfigError);
    await expect(missing).rejects.toThrow(/CREATE TABLE IF NOT EXISTS nothing_here/);
  });
}

/** Two calls with one key at the same time, which only clients that wait can have. */
function concurrent(open: () => Promise<World>): void {
  let world: World;
  beforeAll(async () => {
    world = await open();
    await createIdempotencyTable(world.db);
    await world.transaction((tx) =>
      tx.run("CREATE TABLE IF NOT EXISTS ledger (id VARCHAR(40), cents INT)"),
    );
  });
  afterAll(async () => {
    await world.close();
  });
  beforeEach(async () => {
    await world.transaction((tx) => tx.run("DELETE FROM ledger"));
    await world.transaction((tx) => tx.run("DELETE FROM ringfence_idempotency"));
  });

  const slow = async (response: string, options?: IdempotentOptions): Promise<unknown> =>
    world.transaction(async (tx) =>
      loose(
        tx.client,
        "k1",
        REQUEST,
        async () => {
          await tx.run("INSERT INTO ledger VALUES (?, ?)", "debit", 300);
          await sleep(250);
          return response;
        },
        options,
      ),
    );

  it("a duplicate on its way waits for the first, and gets its response", async () => {
    const all = await Promise.all(["a", "b", "c"].map(async (response) => slow(response)));
    expect(new Set(all).size).toBe(1);
    expect(await world.rows("SELECT cents FROM ledger")).toHaveLength(1);
  });

  it("or is refused at once with a typed error", async () => {
    const first = slow("a", { inProgress: "refuse" });
    await sleep(100);
    await expect(slow("b", { inProgress: "refuse" })).rejects.toThrow(IdempotencyInProgressError);
    expect(await first).toBe("a");
    expect(await slow("b", { inProgress: "refuse" })).toBe("a");
  });

  it("the next one runs when the first is rolled back", async () => {
    const first = world
      .transaction(async (tx) => {
        await loose(tx.client, "k1", REQUEST, async () =>
          tx.run("INSERT INTO ledger VALUES (?, ?)", "x", 1),
        );
        await sleep(150);
        throw new Error("stop");
      })
      .catch(() => "rolled back");
    await sleep(50);
    expect(await Promise.all([first, slow("second")])).toEqual(["rolled back", "second"]);
    expect(await world.rows("SELECT cents FROM ledger")).toEqual([{ cents: 300 }]);
  });
}

describe("idempotent over SQLite", () => {
  promises(async () => sqliteWorld());
});

describePostgres("idempotent over PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  describe("through pg", () => {
    promises(async () => pgWorld(server));
    concurrent(async () => pgWorld(server));
  });
  describe("through postgres", () => {
    const fresh = async (): Promise<World> => {
      await server.query("DROP TABLE IF EXISTS ledger");
      return postgresJsWorld(server);
    };
    promises(fresh);
  });
  it("twenty sessions create the table at once", async () => {
    const world = pgWorld(server);
    const all = Array.from({ length: 20 }, async () =>
      createIdempotencyTable(world.db, { table: "at_once" }),
    );
    await Promise.all(all);
    await world.close();
  });
});

describeMariadb("idempotent over MariaDB", () => {
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  promises(async () => mysqlWorld(server));
  concurrent(async () => mysqlWorld(server));
});
