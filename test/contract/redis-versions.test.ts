import { afterAll, beforeAll, describe, it } from "vitest";
import { redisDriver } from "../../src/drivers/redis/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";
import { describeRedis, RedisServer } from "../fixtures/redis-server.ts";
import { VERSIONS } from "../fixtures/redis-versions.ts";

describeRedis("Redis by other versions of its clients", () => {
  const runner = { describe: describe.concurrent, it: it.concurrent };
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  for (const version of VERSIONS)
    describeDriverContract(runner, {
      name: `redis by ${version.name}`,
      lapsingTtlMs: 300,
      lagMs: 300,
      declares: redisDriver(version.single(1)),
      open: async () => ({
        driver: redisDriver(version.single(server.port)),
        close: async () => undefined,
      }),
    });
});
