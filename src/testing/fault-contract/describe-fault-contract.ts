import type { Capabilities } from "../../core/capabilities.ts";
import type { ContractRunner, DriverFixture } from "../driver-contract/fixture.ts";
import { registerModules } from "../register-modules.ts";
import type { FaultModule } from "./fixture.ts";
import { clocks } from "./modules/clocks.ts";
import { closing } from "./modules/closing.ts";
import { deadWaiter } from "./modules/dead-waiter.ts";
import { deafWaiter } from "./modules/deaf-waiter.ts";
import { ghosts } from "./modules/ghosts.ts";
import { killedSession } from "./modules/killed-session.ts";
import { leavers } from "./modules/leavers.ts";
import { lockDelay } from "./modules/lock-delay.ts";
import { lostReply } from "./modules/lost-reply.ts";
import { outages } from "./modules/outages.ts";
import { reAsk } from "./modules/re-ask.ts";
import { releaseRaces } from "./modules/release-races.ts";
import { revocation } from "./modules/revocation.ts";
import { silentLink } from "./modules/silent-link.ts";
import { stoppedProcess } from "./modules/stopped-process.ts";
import { FaultWorld } from "./world.ts";

const MODULES: readonly FaultModule[] = [
  lostReply,
  reAsk,
  ghosts,
  silentLink,
  stoppedProcess,
  deadWaiter,
  deafWaiter,
  clocks,
  killedSession,
  outages,
  lockDelay,
  revocation,
  leavers,
  releaseRaces,
  closing,
];

/**
 * Registers the tests of what a driver and the lock manager on top of it promise together when things go wrong: replies
 * get lost or come late, links fall silent, processes stop or die, clocks jump. Several managers with clocks and links of
 * their own share what the fixture opens; the faults are injected between each of them and the driver, so a real server
 * needs no proxy. What does not apply to a driver passes as a test that is named after the reason and prints it.
 *
 * In every test, whatever else it promises: the deadline of a holder precedes the next grant, tokens rise, and no
 * rejection goes unhandled.
 *
 * It does not break the server itself: its crash, its own clock and its disk belong to the driver's own tests. In real
 * time a test takes up to three ttls; give it a runner whose `it` runs tests side by side.
 *
 * @example
 * describeFaultContract(
 *   { describe, it },
 *   {
 *     name: "memory",
 *     declares: memoryDriver(),
 *     time: "fake",
 *     open: async () => ({ driver: memoryDriver(), close: async () => {} }),
 *   },
 * );
 */
export function describeFaultContract<C extends Capabilities>(
  runner: ContractRunner,
  fixture: DriverFixture<C>,
): void {
  runner.describe(`fault contract: ${fixture.name}`, () => {
    registerModules(runner, fixture, MODULES, async (promised) => {
      const world = await FaultWorld.open(fixture);
      try {
        await promised.run(world);
      } catch (error) {
        await world.abandon();
        throw error;
      }
      await world.close();
    });
  });
}
