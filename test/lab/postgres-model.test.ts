import type { Pool } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Backend } from "../../src/core/driver.ts";
import { postgresDriverOn } from "../../src/drivers/postgres/driver.ts";
import { MODEL } from "../../src/lab/servers/postgres-statements.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { prepareTwins, Twin } from "../fixtures/postgres-twin.ts";
import { SOAK, size } from "../fixtures/soak.ts";
import { context } from "../fixtures/sqlite.ts";
import { callsOf, PROCESSES, perform } from "./calls.ts";

const CALLS = 500;
const SEEDS = size(3, 300);

describePostgres("the model of PostgreSQL", () => {
  let server: PostgresServer;
  let pool: Pool;
  beforeAll(async () => {
    server = await PostgresServer.start();
    await prepareTwins(server);
    pool = server.pool({ max: 1 });
  }, 30_000);
  afterAll(async () => {
    await pool.end();
    await server.stop();
  });

  /** The production driver in two processes, on a server and the model of one: every message goes to both. */
  async function play(twin: Twin, seed: number, count = CALLS): Promise<void> {
    const { clock } = twin;
    const backends: Backend[] = [];
    for (let n = 0; n < PROCESSES; n += 1) {
      const driver = postgresDriverOn(async () => twin.dialer(), { maxSessions: 1 });
      backends.push(await driver.open(context(clock, `p${n}`)));
    }
    try {
      for (const [n, call] of callsOf(seed, count).entries()) {
        if (call.do === "pass") await twin.pass(call.ms);
        else await perform(call, backends, clock).catch(() => undefined);
        twin.check();
        if (n % 20 === 0) await twin.compareTables();
      }
      await twin.compareTables();
    } finally {
      for (const backend of backends) await backend.close();
    }
  }

  it("answers the driver's messages as PostgreSQL does, reply by reply and row by row", {
    timeout: SOAK ? 3_600_000 : 60_000,
  }, async () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const twin = await Twin.open(pool, new FakeClock());
      await play(twin, seed);
      for (const name of twin.seen) seen.add(name);
    }
    expect(Object.keys(MODEL).filter((name) => !seen.has(name))).toEqual([]);
  });
});
