import assert from "node:assert/strict";
import { LeaseLostError } from "../../../core/errors.ts";
import { noTtl } from "../../driver-contract/fixture.ts";
import type { FaultModule } from "../fixture.ts";
import type { AnyLease, FaultWorld } from "../world.ts";

/** The first reads after a stop, before any timer or reply. */
function readsAsLost(lease: AnyLease): void {
  assert.equal(lease.remainingMs(), 0);
  assert.equal(lease.state, "lost");
  assert.equal(lease.signal.aborted, true);
  assert.throws(() => {
    lease.assertHeld();
  }, LeaseLostError);
}

/** SIGSTOP, a blocked event loop, a long collection of garbage: time passes and nothing runs. */
export const stoppedProcess: FaultModule = {
  name: "stopped process",
  excuse: () => null,
  promises: [
    {
      promise: "a holder that was stopped sees at its first read that the lease is lost",
      excuse: noTtl,
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        const { signal } = lease;
        one.stop();
        await world.wait(world.ttlMs);
        const next = await world.acquire(two, name);
        one.resume();
        readsAsLost(lease);
        assert.equal(signal.aborted, true);
        await world.wait(world.lagMs / 10);
        assert.equal(one.count("lost"), 1);
        assert.equal(await lease.release(), "already-lost");
        assert.equal((await world.record(name)).held[0]?.grantId, next.grantId);
      },
    },
    {
      promise: "a listener on the signal hears of the loss as soon as the process runs again",
      excuse: noTtl,
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process();
        const lease = await world.acquire(one, world.name());
        let heard: unknown;
        const { signal } = lease;
        signal.addEventListener("abort", () => {
          heard = signal.reason;
        });
        one.stop();
        await world.wait(world.ttlMs + world.lagMs);
        one.resume();
        await world.until(() => heard !== undefined, world.lagMs + 1, "the listener is called");
        assert.ok(heard instanceof LeaseLostError);
      },
    },
    {
      promise: "a renewal's answer that waited while the holder was stopped revives nothing",
      excuse: noTtl,
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process();
        const lease = await world.acquire(one, world.name());
        const renewal = one.link.catch("renew", "held-reply");
        await world.until(() => renewal.isMade, world.ttlMs, "the renewal is made");
        one.stop();
        await world.wait(world.ttlMs);
        void renewal.deliver();
        one.resume();
        readsAsLost(lease);
        await world.wait(world.lagMs / 10);
        readsAsLost(lease);
        assert.equal(one.count("lost"), 1);
      },
    },
    {
      promise: "a grant that its caller slept through is no lease, and the caller asks on",
      excuse: noTtl,
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, sleeper] = [await world.process(), await world.process()];
        const held = await world.acquire(holder, name);
        const waiting = await world.waiting(sleeper, name);
        const granting = sleeper.link.catch("attempt", "held-reply");
        await held.release();
        await world.until(() => granting.isMade, world.turnMs(), "the waiter asks");
        sleeper.stop();
        await world.wait(world.ttlMs + world.lagMs);
        void granting.deliver();
        sleeper.resume();
        const lease = await world.settle(waiting.lease, 2 * world.turnMs(), "the sleeper gets in");
        assert.equal(lease.state, "held");
        assert.ok(lease.remainingMs() > 0);
        assert.equal((await world.record(name)).held[0]?.grantId, lease.grantId);
      },
    },
    {
      promise: "a waiter that was stopped when its turn came is passed over, and gets in later",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, sleeper] = [await world.process(), await world.process()];
        const third = await world.process();
        const held = await world.acquire(holder, name);
        const sleeping = await world.waiting(sleeper, name);
        const waiting = await world.waiting(third, name);
        if (world.fixture.declares.liveness === "session") {
          await held.release();
          // Without a queue the third may have come first.
          if (world.fixture.declares.waiting !== "queue")
            await Promise.race([
              sleeping.lease,
              waiting.lease.then(async (lease) => lease.release()),
            ]);
        } else {
          sleeper.stop();
          await held.release();
          const lease = await world.settle(waiting.lease, world.turnMs(1), "the third gets in");
          sleeper.resume();
          await lease.release();
        }
        const late = await world.settle(sleeping.lease, world.turnMs(1), "the sleeper gets in");
        assert.ok(late.remainingMs() > 0);
      },
    },
  ],
};
