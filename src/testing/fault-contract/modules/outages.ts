import assert from "node:assert/strict";
import { BackendUnavailableError } from "../../../core/errors.ts";
import { realTime } from "../../driver-contract/fixture.ts";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

const OUTAGE_MS = 5000;

/** Waiting is for holders: a backend that is out of reach is another matter, and is called so. */
export const outages: FaultModule = {
  name: "outages",
  excuse: () => null,
  promises: [
    {
      promise: "an acquire that meets an outage says so within 5 s, however long it would wait",
      excuse: realTime,
      async run(world: FaultWorld): Promise<void> {
        for (const state of ["refusing", "silent"] as const)
          for (const cold of [true, false]) {
            const one = await world.process({ cold });
            one.link.become(state);
            const acquiring = one.locks.acquire(world.name());
            const error = await world.rejection(acquiring, OUTAGE_MS, `${state}, cold: ${cold}`);
            assert.ok(error instanceof BackendUnavailableError, String(error));
          }
      },
    },
    {
      promise: "an acquire that meets an outage and would wait less says so then",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const one = await world.process();
        one.link.become("refusing");
        const wait = Math.min(1000, world.ttlMs / 2);
        const error = await world.rejection(
          one.locks.acquire(name, { wait }),
          wait + world.lagMs,
          "the wait",
        );
        assert.ok(error instanceof BackendUnavailableError, String(error));
        one.link.become("clear");
        const lease = await world.acquire(one, name);
        assert.equal(await lease.release(), "released");
        await world.becomesFree(name, world.lagMs);
      },
    },
    {
      promise: "an outage while an acquire waits is ridden out",
      async run(world: FaultWorld): Promise<void> {
        for (const state of ["refusing", "silent"] as const) {
          const name = world.name();
          const [holder, waiter] = [await world.process(), await world.process()];
          const held = await world.acquire(holder, name);
          const waiting = await world.waiting(waiter, name);
          waiter.link.become(state);
          await world.wait(world.ttlMs / 2);
          waiter.link.become("clear");
          await held.release();
          await world.settle(waiting.lease, world.turnMs() + world.ttlMs, "the waiter gets in");
        }
      },
    },
    {
      promise: "a wait that ends in an outage is an outage, not a busy lock",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, waiter] = [await world.process(), await world.process()];
        await world.acquire(holder, name);
        // Long enough for a poll of whoever is first to fall into the outage.
        const wait = world.ttlMs * 1.5;
        const waiting = await world.waiting(waiter, name, { wait });
        waiter.link.become("refusing");
        const error = await world.rejection(waiting.lease, wait + world.lagMs + 1000, "the wait");
        assert.ok(error instanceof BackendUnavailableError, String(error));
      },
    },
  ],
};
