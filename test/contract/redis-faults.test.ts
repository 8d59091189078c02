import { afterAll, beforeAll, describe, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { describeFaultContract } from "../../src/testing/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer } from "../fixtures/redis-server.ts";

describeRedis("Redis under the faults of the contract", () => {
  // Each test has a namespace and connections of its own, and mostly waits: they run side by side.
  const runner = { describe: describe.concurrent, it: it.concurrent };
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  for (const library of LIBRARIES) {
    describeFaultContract(runner, {
      name: `redis by ${library.name}`,
      lagMs: 300,
      declares: redisDriver(library.single(1)),
      open: async () => ({
        driver: redisDriver(library.single(server.port)),
        close: async () => undefined,
      }),
    });
  }
});
