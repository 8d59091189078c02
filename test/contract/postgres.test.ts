import { afterAll, beforeAll, describe, it } from "vitest";
import { postgresAdvisoryDriver, postgresDriver } from "../../src/drivers/postgres/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";
import { openAdvisory, POSTGRES_LIBRARIES } from "../fixtures/postgres-clients.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";

describePostgres("PostgreSQL, lease table", () => {
  // Each test has a namespace and sessions of its own, and mostly waits: they run side by side.
  const runner = { describe: describe.concurrent, it: it.concurrent };
  const times = { lapsingTtlMs: 300, lagMs: 300 };
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start({ fsync: "on", max_connections: 400 });
  });
  afterAll(async () => {
    await server.stop();
  });

  for (const library of POSTGRES_LIBRARIES)
    describeDriverContract(runner, {
      name: `postgres by ${library.name}`,
      ...times,
      declares: postgresDriver(library.client(1)),
      open: async () => ({
        driver: postgresDriver(library.client(server.port)),
        close: async () => undefined,
      }),
    });
});

describePostgres("PostgreSQL, advisory locks", () => {
  const runner = { describe: describe.concurrent, it: it.concurrent };
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start({ fsync: "on", max_connections: 400 });
  });
  afterAll(async () => {
    await server.stop();
  });

  for (const library of POSTGRES_LIBRARIES)
    describeDriverContract(runner, {
      name: `postgres advisory by ${library.name}`,
      lapsingTtlMs: 1000,
      lagMs: 300,
      declares: postgresAdvisoryDriver(library.client(1)),
      open: async () => openAdvisory(server, library),
    });
});
