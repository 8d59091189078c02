import { afterAll, beforeAll, describe, it } from "vitest";
import { redlockDriver } from "../../src/drivers/redlock/index.ts";
import { describeDriverContract, describeFaultContract } from "../../src/testing/index.ts";
import { LIBRARIES } from "../fixtures/redis-clients.ts";
import { describeRedis } from "../fixtures/redis-server.ts";
import { RedlockServers } from "../fixtures/redlock-servers.ts";
import { SOAK } from "../fixtures/soak.ts";

/** Clients of servers that are not there, for what a driver declares. */
const OFFLINE = [1, 2, 3].map((port) => LIBRARIES[0].single(port));

describeRedis("Redlock", () => {
  // Each test has a namespace and connections of its own, and mostly waits: they run side by side.
  const runner = { describe: describe.concurrent, it: it.concurrent };
  // A machine under load takes its time for five servers: the ttl must stand clear of that.
  const times = { lapsingTtlMs: 1500, lagMs: 800 };
  let servers: RedlockServers;
  beforeAll(async () => {
    servers = await RedlockServers.start();
  });
  afterAll(async () => {
    await servers.stop();
  });

  for (const { name } of LIBRARIES)
    describeDriverContract(runner, {
      name: `redlock by ${name}`,
      ...times,
      declares: redlockDriver(OFFLINE),
      open: async () => ({
        driver: redlockDriver(servers.clients(name)),
        close: async () => undefined,
      }),
    });

  // Minutes of sleeping. In `npm test` the fault contract runs over modelled servers, in fake time.
  if (!SOAK) return;
  for (const { name } of LIBRARIES)
    for (const quorum of [3, 4]) {
      const fixture = {
        name: `redlock by ${name}, ${quorum} of 5`,
        ...times,
        declares: redlockDriver(OFFLINE),
        open: async () => ({
          driver: redlockDriver(servers.clients(name), { quorum }),
          close: async () => undefined,
        }),
      };
      if (quorum === 4) describeDriverContract(runner, fixture);
      describeFaultContract(runner, fixture);
    }
});
