import { afterAll, beforeAll, describe, it } from "vitest";
import { describeGuardContract } from "../../src/testing/index.ts";
import { PgBouncer } from "../fixtures/pgbouncer.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import {
  type Client,
  pgClient,
  postgresFixture,
  postgresJsClient,
  type World,
} from "../support/postgres-guard-fixtures.ts";

describePostgres("over PostgreSQL", () => {
  const opened: (() => Promise<void>)[] = [];
  let server: PostgresServer;
  let bouncer: PgBouncer;

  beforeAll(async () => {
    server = await PostgresServer.start();
    bouncer = await PgBouncer.start(server, "transaction", 8);
  });
  afterAll(async () => {
    for (const close of opened) await close();
    await bouncer.stop();
    await server.stop();
  });

  /** Two clients, made when a test first needs them. */
  function world<Db, Tx>(connect: (to: PostgresServer) => Client<Db, Tx>): () => World<Db, Tx> {
    let made: World<Db, Tx> | undefined;
    return () => {
      if (made !== undefined) return made;
      made = { server, one: connect(server), two: connect(server) };
      opened.push(made.one.end, made.two.end);
      return made;
    };
  }

  describeGuardContract({ describe, it }, postgresFixture("postgres (pg)", world(pgClient)));
  describeGuardContract(
    { describe, it },
    postgresFixture("postgres (postgres)", world(postgresJsClient)),
  );
  describeGuardContract(
    { describe, it },
    postgresFixture(
      "postgres (pg, through a pooler that changes its sessions)",
      world((to) => pgClient(to, bouncer.url)),
    ),
  );
  describeGuardContract(
    { describe, it },
    postgresFixture(
      "postgres (postgres, through a pooler that changes its sessions)",
      world((to) => postgresJsClient(to, bouncer.url)),
    ),
  );
});
