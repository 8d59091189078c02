import assert from "node:assert/strict";
import { LeaseLostError } from "../../../core/errors.ts";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** An operator frees a lease under its holder. */
export const revocation: FaultModule = {
  name: "revocation",
  excuse: () => null,
  promises: [
    {
      promise: "a holder learns that it was revoked by its next renewal, and hits nobody after",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two, operator] = [
          await world.process(),
          await world.process(),
          await world.process(),
        ];
        const lease = await world.acquire(one, name);
        const { signal } = lease;
        const waiting = await world.waiting(two, name);
        // An operator ends a lease before its holder can know: no belief is promised beyond that.
        world.beliefs.end(lease.grantId);
        const { revoked } = await operator.locks.revoke(name, { reason: "stuck" });
        assert.ok(revoked !== null);
        await world.until(
          () => signal.aborted,
          (world.ttlMs * 2) / 3 + world.lagMs,
          "the holder is told",
        );
        assert.ok(signal.reason instanceof LeaseLostError);
        if (world.fixture.declares.liveness === "ttl")
          assert.equal(signal.reason.reason, "revoked");
        const next = await world.settle(waiting.lease, world.turnMs(), "the waiter gets in");
        assert.equal(await lease.release(), "already-lost");
        assert.equal((await world.record(name)).held[0]?.grantId, next.grantId);
        assert.equal(next.state, "held");
      },
    },
    {
      promise: "a revocation that arrives late frees no other grant",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two, operator] = [
          await world.process(),
          await world.process(),
          await world.process(),
        ];
        const lease = await world.acquire(one, name);
        const late = operator.link.catch("revoke", "held-request");
        await world.rejection(
          operator.locks.revoke(name, { reason: "stuck", now: true }),
          world.ttlMs,
          "the revocation",
        );
        await lease.release();
        const next = await world.acquire(two, name);
        await late.deliver();
        assert.equal((await world.record(name)).held[0]?.grantId, next.grantId);
        await world.wait(world.ttlMs / 2);
        assert.equal(next.state, "held");
      },
    },
  ],
};
