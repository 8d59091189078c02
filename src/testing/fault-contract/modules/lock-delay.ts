import assert from "node:assert/strict";
import { LeaseLostError } from "../../../core/errors.ts";
import { noTtl } from "../../driver-contract/fixture.ts";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** The quiet time after a holder vanished belongs to what it left half done: its own clean-up must not end it. */
export const lockDelay: FaultModule = {
  name: "lock-delay under faults",
  excuse: noTtl,
  promises: [
    {
      promise: "a holder that lost its lease and then releases cuts no lock-delay short",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const lockDelay = world.ttlMs / 2;
        const [one, two] = [await world.process({ lockDelay }), await world.process()];
        const lease = await world.acquire(one, name);
        const { signal } = lease;
        const waiting = await world.waiting(two, name);
        one.link.become("silent");
        await world.until(() => signal.aborted, world.ttlMs + world.lagMs, "the loss is told");
        one.link.become("clear");
        assert.equal(await lease.release(), "already-lost");
        await lease[Symbol.asyncDispose]();
        const next = await world.settle(
          waiting.lease,
          world.turnMs() + lockDelay,
          "the waiter gets in",
        );
        const quiet =
          (world.beliefs.grantedAt(next.grantId) ?? 0) - world.beliefs.deadlineOf(lease.grantId);
        assert.ok(quiet >= lockDelay, `only ${quiet} ms of ${lockDelay} ms were quiet`);
      },
    },
    {
      promise: "neither does a request whose body ends after the loss, nor closing its manager",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const lockDelay = world.ttlMs / 2;
        const [one, two] = [await world.process({ lockDelay }), await world.process()];
        let deadline = 0;
        const requesting = one.locks.request(name, async (lease) => {
          const { signal } = lease;
          await new Promise<void>((resolve) => {
            signal.addEventListener("abort", () => {
              resolve();
            });
          });
          deadline = world.beliefs.deadlineOf(lease.grantId);
          one.link.become("clear");
        });
        requesting.catch(() => undefined);
        await world.until(() => one.count("acquired") === 1, world.turnMs(), "the request holds");
        const waiting = await world.waiting(two, name);
        one.link.become("silent");
        const error = await world.rejection(requesting, world.turnMs(), "the request");
        assert.ok(error instanceof LeaseLostError, String(error));
        await world.settle(one.locks.close(), world.ttlMs, "the manager closes");
        const next = await world.settle(
          waiting.lease,
          world.turnMs() + lockDelay,
          "the waiter gets in",
        );
        const quiet = (world.beliefs.grantedAt(next.grantId) ?? 0) - deadline;
        assert.ok(quiet >= lockDelay, `only ${quiet} ms of ${lockDelay} ms were quiet`);
      },
    },
  ],
};
