import { createPool } from "mysql2/promise";
import { afterAll, beforeAll, describe, it } from "vitest";
import { mysqlDriver } from "../../src/drivers/mysql/index.ts";
import { describeDriverContract, describeFaultContract } from "../../src/testing/index.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";

describeMariadb("MariaDB, lease table", () => {
  // Each test has a namespace and sessions of its own, and mostly waits: they run side by side.
  const runner = { describe: describe.concurrent, it: it.concurrent };
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start({
      "innodb-flush-log-at-trx-commit": 1,
      "max-connections": 500,
    });
  });
  afterAll(async () => {
    await server.stop();
  });

  const subject = {
    lagMs: 300,
    declares: mysqlDriver(createPool({})),
    open: async () => ({
      driver: mysqlDriver(server.pool()),
      close: async () => undefined,
    }),
  };
  describeDriverContract(runner, { name: "mysql", lapsingTtlMs: 500, ...subject });
  describeFaultContract(runner, { name: "mysql", ...subject });
});
