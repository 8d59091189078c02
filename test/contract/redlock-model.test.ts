import { describe, it } from "vitest";
import { type redlockDriver, redlockOver } from "../../src/drivers/redlock/driver.ts";
import { describeDriverContract, describeFaultContract } from "../../src/testing/index.ts";
import { linkTo, modelServers } from "../fixtures/redlock-model.ts";

const YEAR_2026_MS = 1_767_225_600_000;

/** The driver's own code over the simulator's servers: what those get wrong, the simulated scenarios would get wrong. */
function over(
  count: number,
  quorum: number,
  nowMs: () => number,
): ReturnType<typeof redlockDriver> {
  const servers = modelServers(count);
  return redlockOver(() => servers.map((server, i) => linkTo(server, i + 1, nowMs)), count, {
    quorum,
  }) as ReturnType<typeof redlockDriver>;
}

const close = async (): Promise<void> => undefined;

for (const [count, quorum] of [
  [5, 3],
  [5, 4],
  [3, 2],
] as const) {
  const fixture = {
    name: `redlock over modelled servers, ${quorum} of ${count}`,
    declares: over(count, quorum, () => 0),
    time: "fake",
  } as const;
  // Here the servers' clocks are set back with everybody's.
  describeDriverContract(
    { describe, it },
    {
      ...fixture,
      open: async (clock) => ({ driver: over(count, quorum, () => clock.wall()), close }),
    },
  );
  // Here only the clients' hosts sleep, and only their clocks are set.
  describeFaultContract(
    { describe, it },
    {
      ...fixture,
      open: async (clock) => ({
        driver: over(count, quorum, () => YEAR_2026_MS + clock.mono()),
        close,
      }),
    },
  );
}
