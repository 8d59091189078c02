import type { Capabilities } from "../../core/capabilities.ts";
import { registerModules } from "../register-modules.ts";
import type { ContractModule, ContractRunner, DriverFixture } from "./fixture.ts";
import { blocks } from "./modules/blocks.ts";
import { declaration } from "./modules/declaration.ts";
import { transfers } from "./modules/exchange.ts";
import { exclusive } from "./modules/exclusive.ts";
import { lockDelay } from "./modules/lock-delay.ts";
import { namespaces } from "./modules/namespaces.ts";
import { permits } from "./modules/permits.ts";
import { polling } from "./modules/polling.ts";
import { queueLiveness } from "./modules/queue-liveness.ts";
import { queueOrder } from "./modules/queue-order.ts";
import { records } from "./modules/records.ts";
import { release } from "./modules/release.ts";
import { renew } from "./modules/renew.ts";
import { revoke } from "./modules/revoke.ts";
import { shared } from "./modules/shared.ts";
import { takeover } from "./modules/takeover.ts";
import { tokens } from "./modules/tokens.ts";
import { tombstones } from "./modules/tombstones.ts";
import { World } from "./world.ts";

const MODULES: readonly ContractModule[] = [
  declaration,
  exclusive,
  tokens,
  blocks,
  queueOrder,
  queueLiveness,
  polling,
  shared,
  permits,
  renew,
  release,
  tombstones,
  revoke,
  lockDelay,
  takeover,
  transfers,
  records,
  namespaces,
];

/**
 * Registers the tests that every driver must pass, one group for each capability. They speak to the port, so they need
 * no lock manager, and they open the driver once for each test. What does not apply to a driver (by its declaration)
 * passes as a test that is named after the reason and prints it.
 *
 * It does not inject faults: a driver that passes is correct on a good network.
 *
 * @example
 * describeDriverContract(
 *   { describe, it },
 *   {
 *     name: "memory",
 *     declares: memoryDriver(),
 *     time: "fake",
 *     open: async () => ({ driver: memoryDriver(), close: async () => {} }),
 *   },
 * );
 */
export function describeDriverContract<C extends Capabilities>(
  runner: ContractRunner,
  fixture: DriverFixture<C>,
): void {
  runner.describe(`driver contract: ${fixture.name}`, () => {
    registerModules(runner, fixture, MODULES, async (promised) => {
      const world = await World.open(fixture);
      try {
        await promised.run(world);
      } finally {
        await world.close();
      }
    });
  });
}
