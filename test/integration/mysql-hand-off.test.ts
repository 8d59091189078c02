import { createPool } from "mysql2/promise";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { Ask, Backend, GrantRef } from "../../src/core/driver.ts";
import { type MysqlCapabilities, mysqlDriver } from "../../src/drivers/mysql/index.ts";
import { createLockManager, type LockManager } from "../../src/index.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { stopAfter, until } from "../fixtures/redis-server.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

/** What one message is about, by words of its statements. */
const MESSAGES: readonly (readonly [string, RegExp])[] = [
  ["nobody waits", /SET state = 0, grant_id = NULL/],
  ["hand over", /LEAST\(ttl_ms/],
  ["bell", /KILL QUERY/],
  ["take", /token_count = '\d+',\n/],
  ["step", /UNION ALL/],
];

const io = { timeoutMs: 10_000, signal: new AbortController().signal };

function ask(grantId: string, more: Partial<Ask> = {}): Ask {
  const terms = { permits: 1, holder: "somebody", ttlMs: 20_000, lockDelayMs: 0, tokens: 1 };
  return { name: "job", mode: "exclusive", grantId, ...terms, join: "yes", ...more };
}

function ref(grantId: string): GrantRef {
  return { name: "job", mode: "exclusive", grantId, ttlMs: 20_000, lockDelayMs: 0 };
}

describeMariadb("a hand-off through the lease table", () => {
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  /** A process, and who of its waiters was woken. */
  async function opened(namespace: string): Promise<{ backend: Backend; woken: string[] }> {
    const woken: string[] = [];
    const backend = await mysqlDriver(server.pool()).open({
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

  it("costs the releaser one message and a bell, and the waiter one message", async () => {
    const sent: string[] = [];
    const sides: LockManager<MysqlCapabilities>[] = [];
    for (const side of [0, 1]) {
      const proxy = stopAfter(await TcpProxy.to(server.port));
      // Loses nothing: it notes what passes.
      proxy.lose("up", (data) => {
        for (const [word, pattern] of MESSAGES)
          if (pattern.test(data)) sent.push(`${side} ${word}`);
        return false;
      });
      const pool = createPool({
        host: "127.0.0.1",
        port: proxy.port,
        user: "root",
        database: "test",
      });
      const settings = { trustSettings: true, ttl: "1h" } as const;
      sides.push(stopAfter(createLockManager(mysqlDriver(pool), settings)));
    }
    let lease = await sides[0]?.acquire("passed");
    for (let turn = 1; turn <= 4; turn += 1) {
      const [from, to] = [1 - (turn % 2), turn % 2];
      const waiting = sides[to]?.acquire("passed");
      await until(async () => (await sides[0]?.inspect("passed"))?.pending.length === 1);
      sent.length = 0;
      const released = lease?.release();
      lease = await waiting;
      await released;
      // A waiter that looks by itself may have been faster than the bell.
      await until(() => sent.includes(`${from} bell`));
      // The first holder found the name free, so that its release begins by trying whether nobody waits.
      const first = turn === 1 ? [`${from} nobody waits`] : [];
      expect([...sent].sort()).toEqual(
        [...first, `${from} bell`, `${from} hand over`, `${to} take`].sort(),
      );
    }
    await lease?.release();
  });

  it("is heard by a session whose look was ended instead of its sleep", async () => {
    const { backend, woken } = await opened("bell");
    await backend.attempt(ask("holder"), io);
    await backend.attempt(ask("waiter"), io);
    const [{ channel = "" } = {}] = (await server.query(
      "SELECT CONVERT(channel USING utf8mb4) AS channel FROM ringfence_waiters WHERE grant_id = 'waiter'",
    )) as { channel?: string }[];
    const listens = async (how: string): Promise<number | undefined> => {
      const rows = (await server.query(
        "SELECT id FROM information_schema.processlist WHERE info LIKE ?",
        [how],
      )) as { id: number }[];
      return rows[0]?.id;
    };
    const sleeps = `DO SLEEP(%${channel}%`;
    await until(async () => (await listens(sleeps)) !== undefined);
    const session = await listens(sleeps);
    const other = await server.connect();
    onTestFinished(() => {
      other.destroy();
    });
    await other.query("LOCK TABLES ringfence_waiters WRITE");
    await server.query(`KILL QUERY ${session}`);
    const looks = `SELECT grant_id FROM %${channel}%`;
    await until(async () => (await listens(looks)) === session);
    await server.query(`KILL QUERY ${session}`);
    await other.query("UNLOCK TABLES");
    await until(async () => (await listens(sleeps)) === session);
    woken.length = 0;
    await backend.release([ref("holder")], io);
    await until(() => woken.includes("waiter"));
    expect(await listens(sleeps)).toBe(session);
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
    await server.query("UPDATE ringfence_waiters SET ends = 0 WHERE grant_id = 'first'");
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
    await server.query(`INSERT INTO ringfence_tombs SELECT id, 'waiter', 'released', expires + 60000000
      FROM ringfence_locks WHERE grant_id = 'holder'`);
    await backend.release([ref("holder")], io);
    await until(() => woken.includes("waiter"));
    const kept = ask("waiter", { join: "kept" });
    expect(await backend.attempt(kept, io)).toEqual({ kind: "vanished" });
  });

  it("tells the token of an idle name exactly, however large it is", async () => {
    const { backend } = await opened("large");
    const above = 2n ** 61n + 1n;
    const first = await backend.attempt(ask("one", { above }), io);
    await backend.release([ref("one")], io);
    const second = await backend.attempt(ask("two"), io);
    await backend.release([ref("two")], io);
    if (first.kind !== "granted" || second.kind !== "granted") throw new Error("both get in");
    expect(first.tokens?.first).toBe(above + 1n);
    expect(second).toMatchObject({ tokens: { first: above + 2n }, previousToken: above + 1n });
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
