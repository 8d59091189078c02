import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  BackendError,
  IdempotencyConflictError,
  IdempotencyInProgressError,
} from "../../src/core/errors.ts";
import {
  createIdempotencyTable,
  idempotentCall,
  type Provider,
  settleIdempotentCall,
  sweepIdempotency,
} from "../../src/guards/idempotency/index.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { type Payment, PaymentProvider } from "../fixtures/payment-provider.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { size } from "../fixtures/soak.ts";
import { mysqlWorld, pgWorld, sqliteWorld, type World } from "../support/idempotency-worlds.ts";

const ORDERS = size(12, 300);
const ATTEMPT_MS = 60;

interface Outcome {
  /** How often each order was paid. */
  readonly times: readonly number[];
  /** Orders whose callers ended without knowing. */
  readonly open: number;
  readonly provider: PaymentProvider;
}

/** Pays every order, with callers that crash, a provider that loses replies, and one that restarts. */
async function payAll(world: World, choice: Provider, seen: Map<string, string>): Promise<Outcome> {
  const provider = stopAfter(new PaymentProvider({ knowsKeys: choice === "has-keys" }));
  await provider.start();
  let turn = 0;
  provider.fate = () =>
    (["loses the reply", "breaks off before", "answers"] as const)[turn++ % 3] ?? "answers";
  let attempts = 0;
  let open = 0;
  const orders = Array.from(
    { length: ORDERS },
    (_, i): Payment => ({ order: `${choice}/${i}`, cents: i }),
  );
  await Promise.all(
    orders.map(async (payment, i) => {
      for (let crash = i % 4 === 0; ; crash = false) {
        const paid = await idempotentCall(
          world.db,
          payment.order,
          payment,
          async (key) => {
            const answer = await provider.pay(payment, key);
            // A process that ends here has paid and says nothing.
            if (crash) throw new Error("crashed");
            return answer;
          },
          { provider: choice, attemptFor: ATTEMPT_MS },
        ).catch((error: unknown) => error as Error);
        if ("id" in paid) {
          seen.set(payment.order, paid.id);
          return;
        }
        if (paid instanceof BackendError) {
          open += 1;
          return;
        }
        attempts += 1;
        if (attempts % 5 === 0) await provider.restart();
        else await sleep(20);
      }
    }),
  );
  const times = orders.map(
    ({ order }) => provider.booked.filter((payment) => payment.order === order).length,
  );
  return { times, open, provider };
}

function promises(open: () => Promise<World>): void {
  let world: World;
  beforeAll(async () => {
    world = await open();
    await createIdempotencyTable(world.db);
  });
  afterAll(async () => {
    await world.close();
  });
  beforeEach(async () => {
    await world.transaction((tx) => tx.run("DELETE FROM ringfence_idempotency"));
  });

  it("pays each order once at a provider that has keys, through crashes, lost replies and restarts", async () => {
    const seen = new Map<string, string>();
    const { times, open: unknown, provider } = await payAll(world, "has-keys", seen);
    expect(times).toEqual(times.map(() => 1));
    expect(unknown).toBe(0);
    expect(provider.counts.lost).toBeGreaterThan(0);
    expect(provider.counts.requests).toBeGreaterThan(ORDERS);
    // Whoever asks again gets the response that the first one got.
    const again = await idempotentCall(
      world.db,
      "has-keys/1",
      { order: "has-keys/1", cents: 1 },
      async () => Promise.reject(new Error("it was called again")),
      { provider: "has-keys" },
    );
    expect(again).toEqual({ id: seen.get("has-keys/1") });
  });

  it("never pays twice at one without keys under at-most-once, and says which orders are open", async () => {
    const { times, open: unknown } = await payAll(world, "at-most-once", new Map());
    expect(Math.max(...times)).toBe(1);
    expect(unknown).toBeGreaterThan(0);
    const pending = await world.rows(
      "SELECT id FROM ringfence_idempotency WHERE state = 'pending'",
    );
    expect(pending.length).toBe(unknown);
  });

  it("pays every order at one without keys under at-least-once, and some of them twice", async () => {
    const { times, open: unknown } = await payAll(world, "at-least-once", new Map());
    expect(Math.min(...times)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...times)).toBeGreaterThan(1);
    expect(unknown).toBe(0);
  });

  it("refuses a duplicate while an attempt has time left, and another request at any time", async () => {
    let calls = 0;
    const call = async (request: unknown): Promise<unknown> =>
      idempotentCall(
        world.db,
        "k1",
        request,
        async () => {
          calls += 1;
          await sleep(100);
          return "paid";
        },
        { provider: "has-keys" },
      );
    const first = call(1);
    await sleep(30);
    await expect(call(1)).rejects.toThrow(IdempotencyInProgressError);
    await expect(call(2)).rejects.toThrow(IdempotencyConflictError);
    expect([await first, await call(1), calls]).toEqual(["paid", "paid", 1]);
    await expect(call(2)).rejects.toThrow(IdempotencyConflictError);
  });

  it("frees the key when the call vouches that nothing happened, and lets people settle an open one", async () => {
    const options = { provider: "at-most-once", attemptFor: 1 } as const;
    const refusal = new BackendError("declined", { operation: "pay", outcome: "not-applied" });
    const pay = async (fn: () => Promise<string>): Promise<string> =>
      idempotentCall(world.db, "k1", null, fn, options);
    await expect(pay(async () => Promise.reject(refusal))).rejects.toBe(refusal);
    await expect(pay(async () => Promise.reject(new Error("no reply")))).rejects.toThrow(
      "no reply",
    );
    await sleep(20);
    await expect(pay(async () => "twice")).rejects.toMatchObject({ outcome: "unknown" });
    expect(await settleIdempotentCall(world.db, "k1", { again: true })).toBe(true);
    await expect(pay(async () => Promise.reject(new Error("no reply")))).rejects.toThrow(
      "no reply",
    );
    expect(await settleIdempotentCall(world.db, "k1", { response: "by hand" })).toBe(true);
    expect(await settleIdempotentCall(world.db, "k1", { again: true })).toBe(false);
    expect(await pay(async () => "twice")).toBe("by hand");
  });

  it("sweeps what is done, and open calls only when it is told to", async () => {
    const soon = new Date(Date.now() + 60_000);
    const options = { provider: "has-keys" } as const;
    await idempotentCall(world.db, "done", null, async () => 1, options);
    await idempotentCall(
      world.db,
      "open",
      null,
      async () => Promise.reject(new Error()),
      options,
    ).catch(() => undefined);
    expect(await sweepIdempotency(world.db, soon)).toBe(1);
    expect(await sweepIdempotency(world.db, soon, { pendingBefore: soon })).toBe(1);
  });
}

describe("idempotentCall over SQLite", () => {
  promises(async () => sqliteWorld());
});

describePostgres("idempotentCall over PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  promises(async () => pgWorld(server));
});

describeMariadb("idempotentCall over MariaDB", () => {
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  promises(async () => mysqlWorld(server));
});
