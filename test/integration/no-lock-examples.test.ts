import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as compaction from "../../examples/compaction.ts";
import * as seats from "../../examples/seats.ts";
import * as wallet from "../../examples/wallet.ts";
import * as lockless from "../../examples/without-a-lock.ts";
import { LeaseLostError, StaleTokenError } from "../../src/core/errors.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { createIdempotencyTable } from "../../src/guards/idempotency/index.ts";
import { createLockManager } from "../../src/index.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { bundle } from "../support/bundle.ts";
import { temporaryFolder } from "../support/guard-fixtures.ts";

describePostgres("work that needs no lock, and work that needs a guard, under attack", () => {
  let server: PostgresServer;
  let pool: Pool;
  let attacks = 0;

  beforeAll(async () => {
    server = await PostgresServer.start();
    pool = server.pool({ max: 20 });
    for (const { SCHEMA } of [lockless, seats, wallet, compaction]) await server.query(SCHEMA);
    await createIdempotencyTable(pool);
  });
  afterAll(async () => {
    await pool.end();
    await server.stop();
  });

  /** Ends every connection of the pool again and again while the work runs, and the server once. */
  async function underAttack(work: Promise<unknown>): Promise<void> {
    let over = false;
    const isOver = (): boolean => over;
    const done = work.finally(() => {
      over = true;
    });
    const attack = async (): Promise<void> => {
      for (let round = 0; !isOver(); round += 1) {
        await sleep(15 + Math.random() * 30);
        attacks += 1;
        if (round === 3) {
          await server.kill();
          await server.restart();
        } else
          await server
            .query(
              "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5",
            )
            .catch(() => undefined);
      }
    };
    await Promise.all([done, attack()]);
  }

  /** As a client does that got no answer: asks again. */
  async function insisting<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        const { code = "" } = error as { code?: string };
        // What the server decided is no lost answer.
        if (/^(23|22|42|P0)/.test(code)) throw error;
        await sleep(20);
      }
    }
  }

  it("sells 50 seats to 50 of 200 buyers, each once, although connections end at any time", async () => {
    await server.query("INSERT INTO seat SELECT i FROM generate_series(1, 50) i");
    const got = new Map<string, number>();
    const buyers = Array.from({ length: 200 }, async (_, i) => {
      const [seat, buyer] = [(i % 50) + 1, `buyer ${i}`];
      // Until well after the fourth attack, which is the server's death.
      await sleep(Math.random() * 400);
      // A double click.
      const answers = await Promise.all(
        [1, 2].map(async () => insisting(async () => seats.assignSeat(pool, seat, buyer))),
      );
      expect(answers[0]).toBe(answers[1]);
      if (answers[0] === true) got.set(buyer, seat);
    });
    await underAttack(Promise.all(buyers));
    expect(attacks).toBeGreaterThan(3);
    expect(got.size).toBe(50);
    expect(new Set(got.values()).size).toBe(50);
    const stored = await server.query("SELECT id, buyer FROM seat");
    expect(new Map(stored.map(({ id, buyer }) => [buyer, id]))).toEqual(got);
  });

  it("debits each key once, never below zero, and the ledger explains the balance", async () => {
    await server.query("INSERT INTO wallet VALUES ('alice', 1000)");
    const answers: string[] = [];
    const debits = Array.from({ length: 30 }, async (_, i) => {
      const request = { key: `debit ${i}`, wallet: "alice", cents: 50 };
      const twice = [1, 2].map(async () => insisting(async () => wallet.debit(pool, request)));
      const [first, second] = await Promise.all(twice);
      expect(first).toBe(second);
      answers.push(first ?? "");
    });
    await underAttack(Promise.all(debits));
    expect(answers.filter((answer) => answer === "paid")).toHaveLength(20);
    expect(await server.query("SELECT cents::int FROM wallet")).toEqual([{ cents: 0 }]);
    expect(
      await server.query("SELECT count(*)::int AS n, sum(cents)::int AS sum FROM ledger"),
    ).toEqual([{ n: 20, sum: -1000 }]);
  });

  it("compacts without losing a number when a job is overtaken in the middle", async () => {
    await server.query(
      "INSERT INTO segment (numbers) VALUES ('{1,2}'), ('{3}'); INSERT INTO manifest VALUES (1, '{1,2}')",
    );
    const locks = stopAfter(createLockManager(memoryDriver(), { ttl: 300, keepalive: "off" }));
    const merge = async (parts: number[][]): Promise<number[]> => parts.flat();
    const slow = await locks.acquire("compaction");
    const overtaken = compaction.compact(pool, slow, async (parts) => {
      // The job stalls; its lease ends, the next job runs, and one adds a segment after that.
      await sleep(350);
      const next = await locks.acquire("compaction");
      await compaction.compact(pool, next, merge);
      await server.query("INSERT INTO segment (id, numbers) VALUES (100, '{4}')");
      await server.query(
        "INSERT INTO manifest SELECT 3, segments || 100 FROM manifest WHERE generation = 2",
      );
      return merge(parts);
    });
    await expect(overtaken).rejects.toThrow(LeaseLostError);
    const [newest] = await server.query(
      "SELECT array_agg(n ORDER BY n) AS numbers FROM (SELECT unnest(numbers) AS n FROM segment WHERE id = ANY((SELECT segments FROM manifest ORDER BY generation DESC LIMIT 1)::int[])) all_numbers",
    );
    expect(newest).toEqual({ numbers: [1, 2, 3, 4] });
    // With the credential of a process that cannot look at its deadline, the manifest itself refuses.
    const { token, grantId, scope } = slow;
    const blind = { token, grantId, scope, trust: true } as unknown as typeof slow;
    await expect(compaction.compact(pool, blind, merge)).rejects.toThrow(StaleTokenError);
  });

  it("loses no edit of twelve that change one document at once, and gives up where it keeps changing", async () => {
    await server.query("INSERT INTO document VALUES ('d', '', 1)");
    await Promise.all(
      Array.from({ length: 12 }, async (_, i) =>
        lockless.change(pool, "d", (body) => `${body}${i},`, 100),
      ),
    );
    const [document] = await server.query("SELECT body FROM document");
    expect(
      String(document?.["body"])
        .split(",")
        .filter(Boolean)
        .map(Number)
        .sort((a, b) => a - b),
    ).toEqual(Array.from({ length: 12 }, (_, i) => i));
    const restless = lockless.change(
      pool,
      "d",
      async (body) => {
        await server.query("UPDATE document SET version = version + 1");
        return body;
      },
      3,
    );
    await expect(restless).rejects.toThrow("kept changing");
  });

  it("takes no more from the stock than there is, and lets one of many be first", async () => {
    await server.query("INSERT INTO stock VALUES ('apple', 10)");
    const taken = await Promise.all(
      Array.from({ length: 30 }, async () => lockless.take(pool, "apple", 1)),
    );
    expect(taken.filter(Boolean)).toHaveLength(10);
    const first = await Promise.all(
      Array.from({ length: 30 }, async () => lockless.isFirst(pool, "march")),
    );
    expect(first.filter(Boolean)).toHaveLength(1);
  });

  it("does every job of a queue, and gives the job of a worker that died to another", async () => {
    await server.query("INSERT INTO job (work) SELECT 'job ' || i FROM generate_series(1, 40) i");
    const workers = Array.from({ length: 4 }, async () => {
      for (;;) {
        const more = await insisting(async () =>
          lockless.workOnce(pool, async (job) => {
            await sleep(5);
            return `${job} done`;
          }),
        );
        const [left] = more
          ? []
          : await insisting(async () => server.query("SELECT FROM job WHERE result IS NULL"));
        if (!more && left === undefined) return;
      }
    });
    await underAttack(Promise.all(workers));
    const [row] = await server.query(
      "SELECT count(*)::int AS n FROM job WHERE result = work || ' done'",
    );
    expect(row).toEqual({ n: 40 });
  });

  it("lets the last who opened a stream write, and nobody before", async () => {
    const first = await lockless.openStream(pool, "log");
    await first("a");
    const second = await lockless.openStream(pool, "log");
    await expect(first("late")).rejects.toThrow("somebody else");
    await second("b");
    expect(await server.query("SELECT text, epoch::int FROM entry")).toEqual([
      { text: "a", epoch: 1 },
      { text: "b", epoch: 2 },
    ]);
  });
});

describe("the nightly report of six replicas", () => {
  const folder = temporaryFolder();
  const replicas: ChildProcess[] = [];
  let worker: Awaited<ReturnType<typeof bundle>> | undefined;
  afterAll(() => {
    for (const child of replicas) child.kill("SIGKILL");
    worker?.remove();
    folder.remove();
  });

  it("is written once, although the first replica at it is killed", async () => {
    worker = await bundle("test/fixtures/report-worker.ts");
    const day = new Date().toISOString().slice(0, 10);
    const file = join(folder.path, "report.txt");
    const said: string[] = [];
    for (let i = 0; i < 6; i += 1) {
      const child = fork(worker.file, [join(folder.path, "locks.db"), day, file], { execArgv: [] });
      replicas.push(child);
      child.on("message", (what: string) => {
        if (what === "began" && !said.includes("began")) child.kill("SIGKILL");
        said.push(what);
      });
    }
    await expect.poll(() => said.includes("written"), { timeout: 20_000, interval: 50 }).toBe(true);
    await sleep(500);
    expect(said.filter((what) => what === "began")).toHaveLength(2);
    expect(said.filter((what) => what === "written")).toHaveLength(1);
    expect(readFileSync(file, "utf8")).toBe(`report of ${day}\n`);
  }, 40_000);
});
