import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { redlockDriver } from "../../src/drivers/redlock/index.ts";
import { createLockManager } from "../../src/index.ts";
import { canMoveWallClocks, compileShim, WallClock } from "../../src/lab/chaos/wall-clock.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer, stopAfter } from "../fixtures/redis-server.ts";
import { RedlockServers } from "../fixtures/redlock-servers.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const [library] = LIBRARIES;

/**
 * A reaches all servers but the last 5 - quorum, B all but the first: what they share is as few servers as there can be.
 * Something happens to the last one that A has. Whether B gets the lock beside A, and their tokens.
 */
async function splitQuorum(
  servers: readonly RedisServer[],
  quorum: number,
  spoil: (server: RedisServer) => Promise<void> | void,
): Promise<{ readonly both: boolean; readonly rises: boolean }> {
  const reach = async (blocked: (i: number) => boolean) => {
    const ports: number[] = [];
    for (const [i, { port }] of servers.entries()) {
      const proxy = stopAfter(await TcpProxy.to(port));
      if (blocked(i)) proxy.refuse();
      ports.push(proxy.port);
    }
    return stopAfter(
      createLockManager(
        redlockDriver(
          ports.map((port) => library.single(port)),
          { quorum },
        ),
        { ttl: 20_000 },
      ),
    );
  };
  const a = await reach((i) => i >= quorum);
  const b = await reach((i) => i < 5 - quorum);
  const first = await a.acquire("job", { keepalive: "off" });
  const shared = servers[quorum - 1];
  if (shared !== undefined) await spoil(shared);
  const second = await b.tryAcquire("job");
  const rises = second !== null && second.token > first.token;
  await second?.release();
  return { both: second !== null && first.state === "held", rises };
}

async function forgets(server: RedisServer): Promise<void> {
  await server.kill();
  await server.restart();
}

describeRedis("Redlock and a server that restarts without its memory (S12)", () => {
  it("three of five: two hold one name", async () => {
    const { all } = stopAfter(await RedlockServers.start());
    // The token rises all the same: its source is the clock, which the server did not lose.
    expect(await splitQuorum(all, 3, forgets)).toEqual({ both: true, rises: true });
  });

  it("four of five: the quorums share servers that remember", async () => {
    const { all } = stopAfter(await RedlockServers.start());
    expect((await splitQuorum(all, 4, forgets)).both).toBe(false);
  });
});

describe.skipIf(!canMoveWallClocks())("the same, and a clock that jumps", () => {
  describeRedis("Redlock and a server whose clock jumps (S11)", () => {
    /** Five servers; the clock of the one with that number can be moved. */
    async function shimmed(
      number: number,
    ): Promise<{ readonly all: readonly RedisServer[]; readonly clock: WallClock }> {
      const all: RedisServer[] = [];
      const folder = mkdtempSync(join(tmpdir(), "ringfence-clock-"));
      onTestFinished(() => {
        rmSync(folder, { recursive: true, force: true });
      });
      const clock = new WallClock(compileShim(folder), join(folder, "wall-clock.offset"));
      for (let i = 1; i <= 5; i += 1) {
        // The server inherits the environment, and is the only process that is started meanwhile.
        if (i === number) Object.assign(process.env, clock.env);
        try {
          all.push(stopAfter(await RedisServer.start()));
        } finally {
          for (const name of Object.keys(clock.env)) Reflect.deleteProperty(process.env, name);
        }
      }
      return { all, clock };
    }

    it("three of five: two hold one name, and the later token is larger", async () => {
      const { all, clock } = await shimmed(3);
      const jump = (): void => {
        clock.set(60_000);
      };
      expect(await splitQuorum(all, 3, jump)).toEqual({ both: true, rises: true });
    });

    it("four of five: the quorums share servers whose clocks are right", async () => {
      const { all, clock } = await shimmed(4);
      const jump = (): void => {
        clock.set(60_000);
      };
      expect((await splitQuorum(all, 4, jump)).both).toBe(false);
    });
  });
});
