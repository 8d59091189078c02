import assert from "node:assert/strict";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** A session ends under leases that live by it. */
export const killedSession: FaultModule = {
  name: "killed session",
  excuse: ({ declares }) =>
    declares.liveness === "session" ? null : `liveness is "${declares.liveness}"`,
  promises: [
    {
      promise: "a holder whose session was killed is told, and the next one gets in",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        const { signal } = lease;
        const waiting = await world.waiting(two, name);
        await world.endSession(one);
        await world.until(() => signal.aborted, world.ttlMs + world.lagMs, "the holder is told");
        const next = await world.settle(waiting.lease, world.turnMs(), "the waiter gets in");
        assert.equal(await lease.release(), "already-lost");
        assert.equal((await world.record(name)).held[0]?.grantId, next.grantId);
      },
    },
    {
      promise: "a waiter whose session was killed still gets in",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const held = await world.acquire(one, name);
        const waiting = await world.waiting(two, name);
        await world.endSession(two);
        await world.wait(world.lagMs);
        await held.release();
        await world.settle(waiting.lease, 2 * world.turnMs(), "it gets in");
      },
    },
    {
      promise: "a process whose session was killed can acquire again",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const one = await world.process();
        await world.acquire(one, name);
        await world.endSession(one);
        await world.until(() => one.count("lost") === 1, world.turnMs(), "the loss is told");
        const again = await world.acquire(one, name);
        assert.equal(again.state, "held");
      },
    },
  ],
};
