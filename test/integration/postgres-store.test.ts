import { Client, Pool } from "pg";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { Finding } from "../../src/core/driver.ts";
import { keyOf } from "../../src/drivers/postgres/advisory.ts";
import {
  type PostgresDriverOptions,
  postgresAdvisoryDriver,
  postgresDriver,
  postgresSchema,
} from "../../src/drivers/postgres/index.ts";
import { BackendConfigError, createLockManager, InvalidArgumentError } from "../../src/index.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";
import { PgBouncer } from "../fixtures/pgbouncer.ts";
import { POSTGRES_LIBRARIES, pgClient } from "../fixtures/postgres-clients.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";

describePostgres("the lease table in its database", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start({ max_connections: 200 });
  });
  afterAll(async () => {
    await server.stop();
  });

  const manager = (options: PostgresDriverOptions = {}, port = server.port) =>
    stopAfter(
      createLockManager(postgresDriver(POSTGRES_LIBRARIES[0].client(port), options), {
        trustSettings: true,
      }),
    );
  const names = async (schema: string): Promise<unknown[]> =>
    (
      await server.query("SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1", [
        schema,
      ])
    ).map(({ tablename }) => tablename);

  it("twenty that begin at once make the tables once, whatever they are called", async () => {
    const schema = `Ann's "locks" \\ ünd so`;
    const tablePrefix = `rf-"1';--`;
    // A busy machine takes its time for twenty new sessions and the making of tables.
    const patient = { trustSettings: true, ttl: "10m", requestTimeout: "1m" } as const;
    const all = Array.from({ length: 20 }, () => {
      const client = POSTGRES_LIBRARIES[0].client(server.port);
      const driver = postgresDriver(client, { schema, tablePrefix });
      return stopAfter(createLockManager(driver, patient));
    });
    const leases = await Promise.all(all.map(async (each, i) => each.acquire(`job ${i}`)));
    expect(new Set(leases.map(({ token }) => token)).size).toBe(20);
    await Promise.all(leases.map(async (lease) => lease.release()));
    expect(await names(schema)).toHaveLength(7);
    expect((await names(schema)).every((name) => String(name).startsWith(tablePrefix))).toBe(true);
  });

  it("a client of pg that is no pool will do", async () => {
    const driver = postgresDriver(pgClient(server.port), { schema: "single" });
    const locks = stopAfter(createLockManager(driver, { trustSettings: true }));
    expect(await (await locks.acquire("job")).release()).toBe("released");
  });

  it("a client of another kind is refused where it is given", () => {
    // As PGlite has them: one session that is the application's own.
    const none = async (): Promise<unknown> => undefined;
    const single = { query: none, exec: none, transaction: none, listen: none, close: none };
    for (const make of [postgresDriver, postgresAdvisoryDriver])
      expect(() => make(single as never)).toThrow(InvalidArgumentError);
  });

  it("without the right to make tables it says what to do, and works once they are there", async () => {
    await server.query("CREATE ROLE worker LOGIN; CREATE SCHEMA strict");
    const client = POSTGRES_LIBRARIES[0].client(server.port, { user: "worker" });
    const open = (options: PostgresDriverOptions) =>
      stopAfter(createLockManager(postgresDriver(client, options), { trustSettings: true }));
    const strict = { schema: "strict" };
    await expect(open(strict).acquire("job")).rejects.toThrow(/grant CREATE.*schema apply/s);
    const none = open({ ...strict, autoCreate: false }).acquire("job");
    await expect(none).rejects.toThrow(BackendConfigError);
    await expect(none).rejects.toThrow(/schema print/);
    await server.query(postgresSchema(strict));
    // Again, as a migration that is run twice.
    await server.query(postgresSchema(strict));
    await server.query(
      "GRANT USAGE ON SCHEMA strict TO worker; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA strict TO worker; GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA strict TO worker",
    );
    const lease = await open({ ...strict, autoCreate: false }).acquire("job");
    expect(await lease.release()).toBe("released");
  });

  it("tables of a newer format are refused", async () => {
    await (await manager({ schema: "newer" }).acquire("job")).release();
    await server.query("UPDATE newer.ringfence_meta SET format = 2");
    await expect(manager({ schema: "newer" }).acquire("job")).rejects.toThrow(/newer ringfence/);
  });

  it("rows of names that nobody uses go, and their tokens rise all the same", async () => {
    const locks = manager({ schema: "sweep" });
    const kept = await locks.acquire("kept");
    const before = await locks.acquire("name 0");
    await before.release();
    for (let i = 1; i < 250; i += 1) await (await locks.acquire(`name ${i}`)).release();
    await server.query("UPDATE sweep.ringfence_locks SET since = since - interval '1 hour'");
    for (let i = 250; i < 260; i += 1) await (await locks.acquire(`name ${i}`)).release();
    const count = async (): Promise<unknown> =>
      (await server.query("SELECT count(*)::int AS n FROM sweep.ringfence_locks"))[0]?.["n"];
    await expect.poll(count).toBeLessThan(20);
    kept.assertHeld();
    const after = await locks.acquire("name 0");
    expect(after.token > before.token).toBe(true);
    await Promise.all([kept.release(), after.release()]);
  });

  it("a default of SERIALIZABLE changes nothing", async () => {
    const pool = new Pool({
      connectionString: server.url,
      options: "-c default_transaction_isolation=serializable",
    });
    const driver = postgresDriver(pool, { schema: "serial" });
    const locks = [0, 1].map(() => stopAfter(createLockManager(driver, { trustSettings: true })));
    const all = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const lease = await locks[i % 2]?.acquire("job", { wait: "20s" });
        const token = lease?.token ?? 0n;
        await lease?.release();
        return token;
      }),
    );
    expect(new Set(all).size).toBe(20);
  });

  it("where the server has no room for another session, those that there are do for everybody", async () => {
    const full = stopAfter(await PostgresServer.start({ max_connections: 10 }));
    const client = new Client({ connectionString: full.url });
    const locks = stopAfter(createLockManager(postgresDriver(client), { trustSettings: true }));
    await (await locks.acquire("job")).release();
    const others: Client[] = [];
    onTestFinished(async () => {
      for (const other of others) await other.end();
    });
    const another = async (): Promise<boolean> => {
      const other = new Client({ connectionString: full.url });
      try {
        await other.connect();
        others.push(other);
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

  it("two names with one key are found out", async () => {
    const locks = stopAfter(
      createLockManager(postgresAdvisoryDriver(pgClient(server.port)), { trustSettings: true }),
    );
    await (await locks.acquire("one")).release();
    await server.query("UPDATE ringfence_keys SET name = 'default:other' WHERE key = $1", [
      keyOf("default:one"),
    ]);
    await expect(locks.acquire("one")).rejects.toThrow(/same 64-bit key/);
    const held = await server.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
    expect(held).toEqual([]);
  });

  it("more leases than sessions are refused with what to do, and a pool of one of the user's is not touched", async () => {
    const pool = new Pool({ connectionString: server.url, max: 1 });
    const locks = stopAfter(
      createLockManager(postgresAdvisoryDriver(pool, { maxSessions: 3 }), { trustSettings: true }),
    );
    const leases = [await locks.acquire("a"), await locks.acquire("b")];
    await expect(Promise.all([locks.tryAcquire("c"), locks.tryAcquire("d")])).rejects.toThrow(
      /maxSessions/,
    );
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    await Promise.all(leases.map(async (lease) => lease.release()));
    await pool.end();
  });
});

describePostgres("what doctor is told of PostgreSQL", () => {
  async function probe(port: number): Promise<Map<string, Finding>> {
    const backend = await postgresDriver(POSTGRES_LIBRARIES[0].client(port)).open({
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

  it("a sound server is refused nothing; one without fsync, with tables that a crash empties, or behind a pooler is told", async () => {
    const server = stopAfter(
      await PostgresServer.start({
        fsync: "on",
        synchronous_commit: "off",
        full_page_writes: "on",
      }),
    );
    const sound = await probe(server.port);
    expect([...sound.values()].filter(({ verdict }) => verdict !== "ok")).toEqual([]);
    expect(sound.get("synchronous_commit")?.value).toContain("raised to on");
    const bouncer = stopAfter(await PgBouncer.start(server, "transaction"));
    expect((await probe(bouncer.port)).get("pooler")?.verdict).toBe("warn");
    await server.query("ALTER TABLE ringfence_locks SET UNLOGGED");
    expect((await probe(server.port)).get("tables")?.verdict).toBe("refuse");
    await server.query("ALTER SEQUENCE ringfence_tokens CACHE 10");
    expect((await probe(server.port)).get("sequence")?.verdict).toBe("refuse");
    const unsafe = stopAfter(await PostgresServer.start());
    expect((await probe(unsafe.port)).get("fsync")?.verdict).toBe("refuse");
    const refused = stopAfter(
      createLockManager(postgresDriver(POSTGRES_LIBRARIES[1].client(unsafe.port))),
    );
    await expect(refused.acquire("job")).rejects.toThrow(/fsync is off/);
  });

  it("a standby is refused, an asynchronous one is told of, and one that commits wait for is sound", async () => {
    const server = stopAfter(await PostgresServer.start({ fsync: "on", wal_level: "replica" }));
    await probe(server.port);
    const standby = stopAfter(await server.startStandby());
    expect((await probe(standby.port)).get("role")?.verdict).toBe("refuse");
    expect((await probe(server.port)).get("standbys")?.verdict).toBe("warn");
    await server.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await server.query("SELECT pg_reload_conf()");
    const standbys = async (): Promise<Finding | undefined> =>
      (await probe(server.port)).get("standbys");
    await expect
      .poll(standbys, { timeout: 15_000 })
      .toEqual({ name: "standbys", value: "synchronous: *", verdict: "ok" });
  });
});
