import assert from "node:assert/strict";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** Pub/sub, LISTEN, watches and doorbells lose messages: none of them is load-bearing. */
export const deafWaiter: FaultModule = {
  name: "lost wake-ups",
  excuse: () => null,
  promises: [
    {
      promise: "a waiter that hears no wake-up gets in by its own polls",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, deaf] = [await world.process(), await world.process()];
        const held = await world.acquire(holder, name);
        deaf.link.become("deaf");
        const waiting = await world.waiting(deaf, name);
        await held.release();
        await world.settle(waiting.lease, world.turnMs(), "the deaf one gets in");
      },
    },
    {
      promise: "three of them get in one after the other, in a turn each",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const holder = await world.process();
        const held = await world.acquire(holder, name);
        const waits: Promise<unknown>[] = [];
        for (const deaf of await world.processes(3)) {
          deaf.link.become("deaf");
          const waiting = await world.waiting(deaf, name);
          waits.push(waiting.lease.then(async (lease) => lease.release()));
        }
        await held.release();
        const served = await world.settle(
          Promise.all(waits),
          3 * world.turnMs(),
          "all deaf ones get in",
        );
        assert.equal(served.length, 3);
      },
    },
  ],
};
