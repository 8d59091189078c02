import postgres from "postgres";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BackendConfigError } from "../../src/core/errors.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { PgBouncer } from "../fixtures/pgbouncer.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { untilEnough } from "../fixtures/soak.ts";
import { holder } from "../support/holders.ts";

describePostgres("the PostgreSQL guard behind a pooler that changes its sessions", () => {
  let server: PostgresServer;
  let bouncer: PgBouncer;

  beforeAll(async () => {
    server = await PostgresServer.start();
    bouncer = await PgBouncer.start(server, "transaction", 8);
    await server.query("CREATE TABLE counter (value int); INSERT INTO counter VALUES (0)");
  });
  afterAll(async () => {
    await bouncer.stop();
    await server.stop();
  });

  function clientOf(options: { readonly prepare?: boolean }, url = bouncer.url): postgres.Sql {
    const sql = postgres(url, { max: 8, onnotice: () => undefined, ...options });
    stopAfter({ close: async () => sql.end({ timeout: 1 }) });
    return sql;
  }

  /** Increments at once, each in a transaction; how many were acknowledged and are not there. */
  async function lost(sql: postgres.Sql): Promise<number> {
    await server.query("UPDATE counter SET value = 0");
    const settled = await Promise.allSettled(
      Array.from({ length: 100 }, async () =>
        sql.begin(async (tx) => tx.unsafe("UPDATE counter SET value = value + 1")),
      ),
    );
    const [row] = (await server.query("SELECT value FROM counter")) as { value: number }[];
    return settled.filter(({ status }) => status === "fulfilled").length - (row?.value ?? NaN);
  }

  it("postgres.js loses commits there without an error, unless it prepares nothing", async () => {
    const preparing = clientOf({});
    expect(
      await untilEnough(
        async () => lost(preparing),
        (many) => many > 0,
      ),
    ).toBeGreaterThan(0);
    expect(await lost(clientOf({ prepare: false }))).toBe(0);
  });

  it("such a client is refused, with what to do; others are not", async () => {
    const [guard, mine] = [postgresGuard(), holder(1n)];
    const refused = guard.claim(clientOf({}), "counter", mine);
    await expect(refused).rejects.toThrow(BackendConfigError);
    await expect(refused).rejects.toThrow(/`prepare: false`/);
    for (const sql of [clientOf({ prepare: false }), clientOf({}, server.url)])
      expect(await guard.run(sql, "counter", mine, async () => "in")).toBe("in");
  });
});
