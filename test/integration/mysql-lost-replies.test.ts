import { createPool } from "mysql2/promise";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type MysqlCapabilities, mysqlDriver } from "../../src/drivers/mysql/index.ts";
import { createLockManager, type LockManager } from "../../src/index.ts";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { stopAfter, until } from "../fixtures/redis-server.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

type Locks = LockManager<MysqlCapabilities>;

/** What one message is about, by words of its statements. */
const MESSAGES = {
  "the ask at an idle name": /LAST_INSERT_ID/,
  "the first half of a step": /UNION ALL/,
  "the second half of a step": /arrivals = arrivals \+ 1/,
  "a sign of life": /l\.holder\nFROM/,
  "the confirmation of an offer": /token_count = '\d+'/,
  "a renewal": /STRAIGHT_JOIN/,
  "the release that offers it on": /SET offered = [^N]/,
  "the bell": /KILL QUERY/,
} as const;
describeMariadb("a lost reply of MariaDB", () => {
  let server: MariadbServer;
  let spaces = 0;
  beforeAll(async () => {
    server = await MariadbServer.start({ "max-connections": 300 });
  });
  afterAll(async () => {
    await server.stop();
  });

  function open(port: number, namespace: string, more: object): Locks {
    const pool = createPool({ host: "127.0.0.1", port, user: "root", database: "test" });
    const settings = { namespace, trustSettings: true, ...more };
    return stopAfter(createLockManager(mysqlDriver(pool), settings));
  }

  /** A manager whose messages pass a proxy, and two beside it. */
  async function world() {
    spaces += 1;
    const space = `space ${spaces}`;
    const proxy = stopAfter(await TcpProxy.to(server.port));
    const far = open(proxy.port, space, { requestTimeout: 700, ttl: "20s" });
    const [one, two] = [0, 1].map(() => open(server.port, space, { ttl: "20s" })) as [Locks, Locks];
    // Connected, however long that takes on a busy machine: the short limit is for what comes after.
    for (const locks of [far, one, two])
      await until(async () =>
        locks.inspect("job").then(
          () => true,
          () => false,
        ),
      );
    return { proxy, far, one, two };
  }

  async function isFree(locks: Locks): Promise<boolean> {
    const { held, pending } = await locks.inspect("job");
    return held.length === 0 && pending.length === 0;
  }

  it("to an acquire and a release where nobody else is loses no lease and leaves no holder behind", async () => {
    const { proxy, far, one } = await world();
    await (await far.acquire("job")).release();
    const asked = proxy.swallowReply((data) => data.includes("LAST_INSERT_ID"));
    const lease = await far.acquire("job");
    await asked;
    const seen = await one.inspect("job");
    expect(seen.held.map(({ grantId }) => grantId)).toEqual([lease.grantId]);
    expect(seen.token).toBe(lease.token);
    expect(["released", "unknown"]).toContain(await lease.release());
    await until(async () => isFree(one));
    const second = await far.acquire("job");
    const left = proxy.swallowReply((data) => data.includes(second.grantId));
    // Whoever hears nothing of its release may not claim to know; the lock is free all the same.
    expect(["released", "unknown"]).toContain(await second.release());
    await left;
    await until(async () => isFree(one));
    const next = await one.acquire("job", { wait: "10s" });
    expect(next.token > second.token && second.token > lease.token).toBe(true);
    await next.release();
  });

  for (const what of Object.keys(MESSAGES) as (keyof typeof MESSAGES)[]) {
    it(`to ${what} of a waiter's life loses nothing and leaves nobody behind`, async () => {
      const { proxy, far, one, two } = await world();
      const held = await one.acquire("job");
      const swallowed = proxy.swallowReply((data) => MESSAGES[what].test(data));
      const waiting = far.acquire("job");
      const queued = async (count: number): Promise<void> =>
        until(async () => (await one.inspect("job")).pending.length === count);
      await queued(1);
      // Its sign of life comes by itself, after a second.
      if (what === "a sign of life") await swallowed;
      const next = two.acquire("job");
      await queued(2);
      await held.release();
      const lease = await waiting;
      expect(lease.token > held.token).toBe(true);
      const seen = await one.inspect("job");
      expect(seen.held.map(({ grantId }) => grantId)).toEqual([lease.grantId]);
      await lease.renew().catch(() => undefined);
      expect(lease.state).not.toBe("lost");
      expect(["released", "unknown"]).toContain(await lease.release());
      const last = await next;
      await swallowed;
      expect(last.token > lease.token).toBe(true);
      expect(await last.release()).toBe("released");
      await until(async () => isFree(one));
    });
  }
});
