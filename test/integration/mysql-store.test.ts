import { createConnection, createPool } from "mysql2";
import * as promises from "mysql2/promise";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { Finding } from "../../src/core/driver.ts";
import { asMysqlError } from "../../src/drivers/mysql/errors.ts";
import {
  type MysqlClient,
  type MysqlDriverOptions,
  mysqlDriver,
  mysqlSchema,
} from "../../src/drivers/mysql/index.ts";
import { BackendConfigError, createLockManager } from "../../src/index.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { stopAfter, until } from "../fixtures/redis-server.ts";
import { sharingProxy } from "../fixtures/sharing-proxy.ts";

/** For what a busy machine may take long over: twenty new sessions and the making of tables. */
const PATIENT = { trustSettings: true, ttl: "10m", requestTimeout: "1m" } as const;
const DURABLE = { "innodb-flush-log-at-trx-commit": 1 };

function open(client: MysqlClient, options: MysqlDriverOptions = {}) {
  return stopAfter(createLockManager(mysqlDriver(client, options), { trustSettings: true }));
}

/** What can be connected and is not, with an address of its own. */
function poolAt(port: number, more: promises.PoolOptions = {}): promises.Pool {
  return promises.createPool({ host: "127.0.0.1", port, user: "root", database: "test", ...more });
}

describeMariadb("the lease table in its MariaDB", () => {
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start({ ...DURABLE, "max-connections": 300 });
  });
  afterAll(async () => {
    await server.stop();
  });

  const tables = async (database: string): Promise<string[]> =>
    (
      (await server.query(
        "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = ? ORDER BY 1",
        [database],
      )) as { name: string }[]
    ).map(({ name }) => name);

  it("twenty that begin at once make the tables once, whatever they are called", async () => {
    const database = "Ann's `locks` \\ ünd so";
    const tablePrefix = "rf-\"1';-- `";
    const all = Array.from({ length: 20 }, () => {
      const driver = mysqlDriver(poolAt(server.port), { database, tablePrefix });
      return stopAfter(createLockManager(driver, PATIENT));
    });
    const leases = await Promise.all(all.map(async (each, i) => each.acquire(`job ${i}`)));
    await Promise.all(leases.map(async (lease) => lease.release()));
    expect(await tables(database)).toHaveLength(5);
    expect((await tables(database)).every((name) => name.startsWith(tablePrefix))).toBe(true);
  });

  it("pools and connections, with promises or without, lend their address, whatever else they set", async () => {
    const settings = {
      host: "127.0.0.1",
      port: server.port,
      user: "root",
      database: "test",
      dateStrings: true,
      decimalNumbers: true,
      flags: ["-FOUND_ROWS"],
      rowsAsArray: true,
      typeCast: () => "none of your business",
    };
    const [plain, promised] = [
      createConnection(settings),
      await promises.createConnection(settings),
    ];
    const clients = [createPool(settings), promises.createPool(settings), plain, promised];
    for (const client of clients) {
      const locks = open(client, { tablePrefix: "clients_" });
      const lease = await locks.acquire("job");
      expect((await locks.inspect("job")).held[0]?.token).toBe(lease.token);
      expect(await lease.release()).toBe("released");
    }
    plain.destroy();
    promised.destroy();
    expect(() => mysqlDriver({ query: () => undefined, config: {} })).toThrow(
      /Expected a Pool or Connection of `mysql2`/,
    );
  });

  it("without the right to make tables it says what to do, and works once they are there", async () => {
    await server.query("CREATE DATABASE strict");
    await server.query("CREATE USER worker@'127.0.0.1'");
    await server.query("GRANT SELECT, INSERT, UPDATE, DELETE ON strict.* TO worker@'127.0.0.1'");
    const client = poolAt(server.port, { user: "worker", database: "strict" });
    await expect(open(client).acquire("job")).rejects.toThrow(/grant CREATE.*schema apply/s);
    const none = open(client, { autoCreate: false }).acquire("job");
    await expect(none).rejects.toThrow(BackendConfigError);
    await expect(none).rejects.toThrow(/schema print/);
    // Twice, as a migration that is run again.
    for (const statement of mysqlSchema({ database: "strict" }).repeat(2).split(";\n"))
      if (statement.trim() !== "") await server.query(statement);
    const lease = await open(client, { autoCreate: false }).acquire("job");
    expect(await lease.release()).toBe("released");
  });

  it("tables of a newer format are refused", async () => {
    const newer = { tablePrefix: "newer_" };
    await (await open(poolAt(server.port), newer).acquire("job")).release();
    await server.query("UPDATE newer_meta SET format = 2");
    await expect(open(poolAt(server.port), newer).acquire("job")).rejects.toThrow(
      /newer ringfence/,
    );
  });

  it("rows of names that nobody uses go, and their tokens rise all the same", async () => {
    const locks = open(poolAt(server.port), { tablePrefix: "sweep_" });
    const kept = await locks.acquire("kept");
    for (let i = 0; i < 3; i += 1) await (await locks.acquire("name 0")).release();
    const before = await locks.acquire("name 0");
    await before.release();
    for (let i = 1; i < 250; i += 1) await (await locks.acquire(`name ${i}`)).release();
    // A number that somebody demanded, not counted: it must not become everybody's.
    await server.query("UPDATE sweep_locks SET raised = 4000000000000000000 ORDER BY name LIMIT 1");
    await server.query("UPDATE sweep_locks SET since = since - 3600000000");
    for (let i = 250; i < 260; i += 1) await (await locks.acquire(`name ${i}`)).release();
    const count = async (): Promise<number> =>
      ((await server.query("SELECT name FROM sweep_locks")) as unknown[]).length;
    await until(async () => (await count()) < 20);
    kept.assertHeld();
    const after = await locks.acquire("name 0");
    expect(after.token > before.token).toBe(true);
    expect(after.token < 1000n).toBe(true);
    await Promise.all([kept.release(), after.release()]);
  });

  it("names are what their bytes are: case, accents, trailing blanks and the last of 512 bytes count", async () => {
    const locks = open(poolAt(server.port), { tablePrefix: "names_" });
    const long = "x".repeat(511);
    const names = [
      "a",
      "A",
      "ä",
      "a ",
      "a  ",
      "ß",
      "ss",
      "%",
      "_",
      "\\",
      "'",
      `${long}1`,
      `${long}2`,
    ];
    const leases = await Promise.all(names.map(async (name) => locks.acquire(name)));
    const found = (await locks.query()).held.map(({ name }) => name);
    expect(found.sort()).toEqual([...names].sort());
    await Promise.all(leases.map(async (lease) => lease.release()));
  });

  it("wakes a waiter of another process, and ends nobody else's statement", async () => {
    const [one, two] = [0, 1].map(() => open(poolAt(server.port), { tablePrefix: "wake_" }));
    const held = await one?.acquire("job");
    const waiting = two?.acquire("job", { wait: "20s" });
    await until(async () => (await one?.inspect("job"))?.pending.length === 1);
    const [{ word = "" } = {}] = (await server.query(
      "SELECT CONVERT(channel USING utf8mb4) AS word FROM wake_waiters",
    )) as { word?: string }[];
    const sleepers = await server.query(
      "SELECT 1 FROM information_schema.processlist WHERE info LIKE ?",
      [`DO SLEEP(%${word}%`],
    );
    expect(sleepers).toHaveLength(1);
    const victim = await server.connect();
    onTestFinished(() => {
      victim.destroy();
    });
    const slept = victim.query(`SELECT SLEEP(1) AS cut /* ${word} */`);
    await held?.release();
    expect((await slept)[0]).toEqual([{ cut: 0 }]);
    const lease = await waiting;
    const again = one?.acquire("job", { wait: "20s" });
    await until(async () => (await two?.inspect("job"))?.pending.length === 1);
    await lease?.release();
    expect(await (await again)?.release()).toBe("released");
  });

  it("a proxy that shares sessions out is refused, with what to do, unless it keeps to one", async () => {
    const proxy = await sharingProxy(server.port);
    onTestFinished(async () => proxy.close());
    const refused = open(poolAt(proxy.port)).acquire("job");
    await expect(refused).rejects.toThrow(BackendConfigError);
    await expect(refused).rejects.toThrow(/direct address.*pooler: "session"/s);
    const lease = await open(poolAt(proxy.port), { pooler: "session" }).acquire("job");
    expect(await lease.release()).toBe("released");
  });

  it("a row that somebody else has keeps a step waiting, and no longer than that", async () => {
    const driver = mysqlDriver(poolAt(server.port), { tablePrefix: "row_" });
    const locks = stopAfter(createLockManager(driver, PATIENT));
    await (await locks.acquire("job")).release();
    const other = await server.connect();
    onTestFinished(() => {
      other.destroy();
    });
    await other.query("START TRANSACTION");
    await other.query("SELECT 1 FROM row_locks FOR UPDATE");
    const waiting = locks.acquire("job", { wait: "1m" });
    await until(async () => {
      const rows = await server.query("SELECT 1 FROM information_schema.innodb_lock_waits");
      return (rows as unknown[]).length > 0;
    });
    await other.query("ROLLBACK");
    expect(await (await waiting).release()).toBe("released");
  });

  it("deadlocks and waits for rows are busy with nothing applied; what ends a session is unknown", () => {
    const said = (errno: number) =>
      asMysqlError(Object.assign(new Error("no"), { errno, sqlState: "HY000" }));
    for (const errno of [1213, 1205, 1020])
      expect(said(errno)).toMatchObject({ kind: "busy", outcome: "not-applied" });
    for (const errno of [1045, 1142, 1146, 1665])
      expect(said(errno)).toMatchObject({ kind: "config", outcome: "not-applied" });
    for (const errno of [1053, 1180, 1317, 1927, 4031, 99_999])
      expect(said(errno)).toMatchObject({ kind: "unavailable", outcome: "unknown" });
  });
});

describeMariadb("a MariaDB with settings of its own", () => {
  it("where it has no room for another session, those that there are do for everybody", async () => {
    const server = stopAfter(await MariadbServer.start({ "max-connections": 10 }));
    const locks = open(server.pool());
    await (await locks.acquire("job")).release();
    const others: promises.Connection[] = [];
    onTestFinished(() => {
      for (const other of others) other.destroy();
    });
    const another = async (): Promise<boolean> => {
      try {
        others.push(await server.connect());
        return true;
      } catch {
        return false;
      }
    };
    while (await another());
    const names = Array.from({ length: 20 }, (_, i) => `job ${i}`);
    const leases = await Promise.all(names.map(async (name) => locks.tryAcquire(name)));
    expect(leases.every((lease) => lease !== null)).toBe(true);
    await Promise.all(leases.map(async (lease) => lease?.renew()));
    for (const lease of leases) expect(await lease?.release()).toBe("released");
  });

  it("whatever its sessions begin with, nothing changes for ours", async () => {
    const server = stopAfter(
      await MariadbServer.start({
        ...DURABLE,
        "sysdate-is-now": 1,
        "transaction-isolation": "SERIALIZABLE",
        "default-time-zone": "+05:30",
        "sql-mode": "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION",
        "character-set-server": "latin1",
        "collation-server": "latin1_german1_ci",
        "max-statement-time": 2,
        "completion-type": "CHAIN",
        "innodb-lock-wait-timeout": 50,
        "init-connect": "SET autocommit = 0, timestamp = 1000, sql_select_limit = 1, NAMES latin1",
      }),
    );
    // The server's own commands run it for those who are not its administrators.
    await server.query("CREATE USER plain@'127.0.0.1'");
    await server.query("GRANT ALL ON test.* TO plain@'127.0.0.1'");
    await server.query("COMMIT");
    const locks = [0, 1].map(() => open(poolAt(server.port, { user: "plain" })));
    const tokens = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const options = { wait: "30s", label: `Zoë 🔒 '"\\ ${i}` } as const;
        const lease = await locks[i % 2]?.acquire("job", options);
        if (lease === undefined) throw new Error("none");
        const label = (await locks[(i + 1) % 2]?.inspect("job"))?.held[0]?.holder.label;
        expect(label).toBe(options.label);
        await lease.release();
        return lease.token;
      }),
    );
    expect(new Set(tokens).size).toBe(20);
  }, 30_000);
});

describeMariadb("what doctor is told of MariaDB", () => {
  async function probe(port: number): Promise<Map<string, Finding>> {
    const backend = await mysqlDriver(poolAt(port)).open({
      clock: systemClock,
      random: systemRandom,
      host: { id: "h", name: "h", pid: 1, bootId: null, timeNamespace: null },
      namespace: "n",
      notify: () => undefined,
    });
    try {
      const io = { timeoutMs: 10_000, signal: new AbortController().signal };
      return new Map((await backend.probe(io)).map((finding) => [finding.name, finding]));
    } finally {
      await backend.close();
    }
  }

  it("a sound server is refused nothing; one that may forget commits, or whose tables have no transactions, is", async () => {
    const server = stopAfter(await MariadbServer.start(DURABLE));
    const sound = await probe(server.port);
    expect([...sound.values()].filter(({ verdict }) => verdict !== "ok")).toEqual([]);
    expect(sound.get("version")?.value).toContain("MariaDB");
    await server.query("ALTER TABLE ringfence_locks ENGINE = MyISAM");
    expect((await probe(server.port)).get("tables")?.verdict).toBe("refuse");
    await server.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    expect((await probe(server.port)).get("durability of the log")?.verdict).toBe("refuse");
    await server.query("ALTER TABLE ringfence_locks ENGINE = InnoDB");
    const refused = stopAfter(createLockManager(mysqlDriver(poolAt(server.port))));
    await expect(refused.acquire("job")).rejects.toThrow(/innodb_flush_log_at_trx_commit = 1/);
    await server.query("SET GLOBAL read_only = 1");
    expect((await probe(server.port)).get("role")?.verdict).toBe("refuse");
  });

  it("a binary log that is not synced, or that cannot take what we write, is refused", async () => {
    const settings = { ...DURABLE, "skip-log-bin": "0", "log-bin": "log", "server-id": 1 };
    const server = stopAfter(
      await MariadbServer.start({ ...settings, "binlog-format": "MIXED", "sync-binlog": 0 }),
    );
    expect((await probe(server.port)).get("durability of the binary log")?.verdict).toBe("refuse");
    await server.query("SET GLOBAL binlog_format = STATEMENT");
    const refused = open(poolAt(server.port)).acquire("job");
    await expect(refused).rejects.toThrow(BackendConfigError);
    await expect(refused).rejects.toThrow(/1665/);
    expect((await probe(server.port)).get("binlog_format")?.verdict).toBe("refuse");
    await server.query("SET GLOBAL sync_binlog = 1");
    await server.query("SET GLOBAL binlog_format = MIXED");
    const lease = await stopAfter(createLockManager(mysqlDriver(poolAt(server.port)))).acquire(
      "job",
    );
    expect(await lease.release()).toBe("released");
  });
});
