import { afterAll, beforeAll, describe, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis, RedisServer } from "../fixtures/redis-server.ts";

describeRedis("Redis", () => {
  // Each test has a namespace and connections of its own, and mostly waits: they run side by side.
  const runner = { describe: describe.concurrent, it: it.concurrent };
  // The server's script notices a lapse in the very millisecond.
  const times = { lapsingTtlMs: 300, lagMs: 300 };
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  for (const library of LIBRARIES) {
    describeDriverContract(runner, {
      name: `redis by ${library.name}`,
      ...times,
      declares: redisDriver(library.single(1)),
      open: async () => ({
        driver: redisDriver(library.single(server.port)),
        close: async () => undefined,
      }),
    });
  }

  describeDriverContract(runner, {
    name: "redis for efficiency only",
    ...times,
    declares: redisDriver(LIBRARIES[0].single(1), { efficiencyOnly: true }),
    open: async () => ({
      driver: redisDriver(LIBRARIES[0].single(server.port), { efficiencyOnly: true }),
      close: async () => undefined,
    }),
  });
});
