import { afterAll, beforeAll, describe, it } from "vitest";
import { describeGuardContract } from "../../src/testing/index.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { mysqlFixture, type World } from "../support/mysql-guard-fixtures.ts";

describeMariadb("over MariaDB", () => {
  let world: World;

  beforeAll(async () => {
    const server = await MariadbServer.start();
    world = { server, one: server.pool(), two: server.pool() };
  });
  afterAll(async () => {
    await world.one.end();
    await world.two.end();
    await world.server.stop();
  });

  describeGuardContract(
    { describe, it },
    mysqlFixture("mysql (mysql2)", () => world),
  );
});
