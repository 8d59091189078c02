import { Client, Pool } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Ask, Backend, GrantRef } from "../../src/core/driver.ts";
import { postgresDriver } from "../../src/drivers/postgres/index.ts";
import { createLockManager } from "../../src/index.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";
import { POSTGRES_LIBRARIES } from "../fixtures/postgres-clients.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter, until } from "../fixtures/redis-server.ts";

const io = { timeoutMs: 10_000, signal: new AbortController().signal };

function ask(grantId: string, more: Partial<Ask> = {}): Ask {
  const terms = { permits: 1, holder: "somebody", ttlMs: 20_000, lockDelayMs: 0, tokens: 1 };
  return { name: "job", mode: "exclusive", grantId, ...terms, join: "yes", ...more };
}

function ref(grantId: string): GrantRef {
  return { name: "job", mode: "exclusive", grantId, ttlMs: 20_000, lockDelayMs: 0 };
}

describePostgres("a hand-off through the lease table", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  /** A process, and who of its waiters was woken. */
  async function opened(namespace: string): Promise<{ backend: Backend; woken: string[] }> {
    const woken: string[] = [];
    const backend = await postgresDriver(POSTGRES_LIBRARIES[0].client(server.port)).open({
      clock: systemClock,
      random: systemRandom,
      host: { id: "test", name: "test", pid: process.pid, bootId: null, timeNamespace: null },
      namespace,
      notify: (notice) => {
        if (notice.kind === "wake") woken.push(notice.grantId);
      },
    });
    stopAfter({ stop: async () => backend.close() });
    return { backend, woken };
  }

  it("costs the releaser one message and the waiter one", async () => {
    const sent: string[] = [];
    const pools = [0, 1].map((side) => {
      class Noted extends Client {
        override query = ((...args: unknown[]): unknown => {
          const { name, text } = args[0] as { readonly name?: string; readonly text: string };
          // A sign of life, and what a session begins with, may come at any time.
          if (!/^(ringfence_refresh|LISTEN|SELECT concat\(pg_backend_pid)/.test(name ?? text))
            sent.push(`${side}`);
          return (Client.prototype.query as (...all: unknown[]) => unknown).apply(this, args);
        }) as Client["query"];
      }
      return new Pool({ connectionString: server.url, Client: Noted });
    });
    const sides = pools.map((pool) =>
      stopAfter(createLockManager(postgresDriver(pool), { trustSettings: true, ttl: "1h" })),
    );
    let lease = await sides[0]?.acquire("passed");
    const messages: string[] = [];
    for (let turn = 1; turn <= 4; turn += 1) {
      const waiting = sides[turn % 2]?.acquire("passed");
      await until(async () => (await sides[0]?.inspect("passed"))?.pending.length === 1);
      sent.length = 0;
      const released = lease?.release();
      lease = await waiting;
      await released;
      messages.push(sent.join(""));
    }
    await lease?.release();
    // The first holder found the name free, so that its release begins by trying whether nobody waits.
    expect(messages).toEqual(["001", "10", "01", "10"]);
  });

  it("lets readers in together, up to the writer between them", async () => {
    const { backend, woken } = await opened("readers");
    await backend.attempt(ask("holder"), io);
    const shared = { mode: "shared" } as const;
    await backend.attempt(ask("reader 1", shared), io);
    await backend.attempt(ask("reader 2", shared), io);
    await backend.attempt(ask("writer"), io);
    await backend.attempt(ask("reader 3", shared), io);
    expect(await backend.release([ref("holder")], io)).toEqual([{ kind: "released" }]);
    await until(() => woken.includes("reader 1") && woken.includes("reader 2"));
    const kept = { join: "kept" } as const;
    for (const reader of ["reader 1", "reader 2"])
      expect(await backend.attempt(ask(reader, { ...shared, ...kept }), io)).toMatchObject({
        kind: "granted",
      });
    for (const other of [ask("writer", kept), ask("reader 3", { ...shared, ...kept })])
      expect(await backend.attempt(other, io)).toMatchObject({ kind: "busy", queued: true });
    expect([...woken].sort()).toEqual(["reader 1", "reader 2"]);
  });

  it("gives way to a waiter that was taken for dead, came back and stands before", async () => {
    const { backend, woken } = await opened("return");
    const kept = { join: "kept" } as const;
    await backend.attempt(ask("holder"), io);
    await backend.attempt(ask("first"), io);
    await backend.attempt(ask("second"), io);
    await server.query(
      "UPDATE ringfence_waiters SET until = clock_timestamp() WHERE grant_id = 'first'",
    );
    await backend.release([ref("holder")], io);
    await until(() => woken.includes("second"));
    expect(await backend.attempt(ask("first", kept), io)).toMatchObject({ kind: "granted" });
    expect(await backend.attempt(ask("second", kept), io)).toMatchObject({ kind: "busy" });
    expect(await backend.release([ref("first")], io)).toEqual([{ kind: "released" }]);
    expect(await backend.attempt(ask("second", kept), io)).toMatchObject({ kind: "granted" });
  });

  it("refuses an offer to a grant id that was given back", async () => {
    const { backend, woken } = await opened("buried");
    await backend.attempt(ask("holder"), io);
    await backend.attempt(ask("waiter"), io);
    await server.query(`INSERT INTO ringfence_tombs SELECT key, 'waiter', 'released',
      clock_timestamp() + interval '1 minute' FROM ringfence_locks WHERE grant_id = 'holder'`);
    await backend.release([ref("holder")], io);
    await until(() => woken.includes("waiter"));
    const kept = ask("waiter", { join: "kept" });
    expect(await backend.attempt(kept, io)).toEqual({ kind: "vanished" });
  });

  it("keeps the tokens of a block apart from those of the next holder", async () => {
    const { backend, woken } = await opened("blocks");
    const first = await backend.attempt(ask("holder"), io);
    await backend.attempt(ask("many", { tokens: 5 }), io);
    await backend.attempt(ask("next"), io);
    await backend.release([ref("holder")], io);
    await until(() => woken.includes("many"));
    const many = await backend.attempt(ask("many", { tokens: 5, join: "kept" }), io);
    await backend.release([ref("many")], io);
    await until(() => woken.includes("next"));
    const next = await backend.attempt(ask("next", { join: "kept" }), io);
    if (first.kind !== "granted" || many.kind !== "granted" || next.kind !== "granted")
      throw new Error("all three get in");
    expect(many.tokens?.count).toBe(5);
    expect(many.previousToken).toBe(first.tokens?.first);
    expect((many.tokens?.first ?? 0n) > (first.tokens?.first ?? 0n)).toBe(true);
    expect(next.previousToken).toBe((many.tokens?.first ?? 0n) + 4n);
    expect((next.tokens?.first ?? 0n) > (next.previousToken ?? 0n)).toBe(true);
  });
});
