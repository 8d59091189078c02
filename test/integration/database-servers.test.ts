import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";

/** What both servers of the tests do alike. */
interface Server {
  readonly folder: string;
  query(text: string): Promise<unknown>;
  kill(): Promise<void>;
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

function promises(start: () => Promise<Server & AsyncDisposable>): void {
  it("keeps what was committed over a kill -9, and is gone with its folder when it is stopped", async () => {
    const server = await start();
    await server.query("CREATE TABLE t (a int)");
    await server.query("INSERT INTO t VALUES (7)");
    await server.kill();
    await expect(server.query("SELECT a FROM t")).rejects.toThrow();
    await server.restart();
    expect(await server.query("SELECT a FROM t")).toEqual([{ a: 7 }]);
    await server.stop();
    await expect(server.query("SELECT 1")).rejects.toThrow();
    expect(existsSync(server.folder)).toBe(false);
  });

  it("answers nothing while it is paused, and goes on after that", async () => {
    await using server = await start();
    server.pause();
    const answer = server.query("SELECT 1 AS one");
    expect(await Promise.race([answer, sleep(150, "nothing")])).toBe("nothing");
    server.resume();
    expect(await answer).toEqual([{ one: 1 }]);
  });
}

describePostgres("the PostgreSQL server of the tests", () => {
  promises(async () => await PostgresServer.start());

  it("takes settings, and feeds a standby that answers reads", async () => {
    await using server = await PostgresServer.start({
      default_transaction_isolation: "serializable",
    });
    expect(await server.query("SHOW default_transaction_isolation")).toEqual([
      { default_transaction_isolation: "serializable" },
    ]);
    await using standby = await server.startStandby();
    await server.query("CREATE TABLE t (a int)");
    await expect
      .poll(async () => await standby.query("SELECT count(*)::int AS n FROM t").catch(() => null))
      .toEqual([{ n: 0 }]);
    await expect(standby.query("INSERT INTO t VALUES (1)")).rejects.toMatchObject({
      code: "25006",
    });
  });
});

describeMariadb("the MariaDB server of the tests", () => {
  promises(async () => await MariadbServer.start());

  it("takes options", async () => {
    await using server = await MariadbServer.start({ "innodb-lock-wait-timeout": 2 });
    expect(await server.query("SELECT @@innodb_lock_wait_timeout AS s")).toEqual([{ s: 2 }]);
  });
});
