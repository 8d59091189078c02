import assert from "node:assert/strict";
import { noTtl } from "../../driver-contract/fixture.ts";
import type { FaultModule } from "../fixture.ts";
import type { AnyLease, FaultWorld } from "../world.ts";

/** When the holder stops to believe, by its clock. */
function deadline(world: FaultWorld, lease: AnyLease): number {
  return world.clock.mono() + lease.remainingMs();
}

/** Fails when the holder believes longer than the store keeps the lease. */
async function compare(world: FaultWorld, lease: AnyLease): Promise<void> {
  const before = deadline(world, lease);
  const { held } = await world.record(lease.name);
  const mine = lease.remainingMs();
  if (mine === 0) return;
  // Renewed after the store was read, and told before its answer was: it is looked at again.
  if (deadline(world, lease) > before + 1) {
    await compare(world, lease);
    return;
  }
  const kept = held.find(({ grantId }) => grantId === lease.grantId);
  assert.ok(kept !== undefined, `believed for ${mine} ms more, and the store has no such lease`);
  if (kept.remainingMs !== null)
    assert.ok(
      mine <= kept.remainingMs,
      `believed for ${mine} ms more, and the store keeps it for ${kept.remainingMs} ms`,
    );
}

async function watch(world: FaultWorld, lease: AnyLease, forMs: number): Promise<void> {
  const end = world.clock.mono() + forMs;
  for (;;) {
    await compare(world, lease);
    if (world.clock.mono() >= end) return;
    await world.wait(world.ttlMs / 20);
  }
}

/** Whatever was lost or late: the holder never believes longer than the store. */
export const reAsk: FaultModule = {
  name: "asking again",
  excuse: noTtl,
  promises: [
    {
      promise: "a holder that had to ask twice believes no longer than the store",
      async run(world: FaultWorld): Promise<void> {
        // Well below the 5 s after which an acquire that was never answered gives up.
        const one = await world.process({ requestTimeout: world.ttlMs * 0.4 });
        one.link.catch("attempt", "silence");
        const lease = await world.acquire(one, world.name());
        assert.ok(lease.remainingMs() > 0);
        await watch(world, lease, world.ttlMs);
        assert.equal(lease.state, "held");
      },
    },
    {
      promise: "a waiter that asked again half a ttl after the grant believes no longer either",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const holder = await world.process();
        const waiter = await world.process({
          // 5 s with a ttl of 10 s.
          requestTimeout: world.ttlMs / 2,
          keepalive: "off",
        });
        const held = await world.acquire(holder, name);
        const waiting = await world.waiting(waiter, name);
        const granting = waiter.link.catch("attempt", "silence");
        await held.release();
        const lease = await world.settle(waiting.lease, world.turnMs() + world.ttlMs, "it gets in");
        assert.ok(granting.isMade);
        await watch(world, lease, world.ttlMs * 1.1);
        assert.equal(lease.state, "lost");
      },
    },
    {
      promise: "a holder whose renewal was applied unheard believes no longer than the store",
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process();
        const lease = await world.acquire(one, world.name());
        one.link.catch("renew", "silence");
        await watch(world, lease, world.ttlMs * 1.2);
        assert.equal(lease.state, "held");
      },
    },
    {
      promise: "a holder whose renewal for a shorter time was applied unheard believes no longer",
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process({ ttl: world.ttlMs * 2, requestTimeout: world.ttlMs / 4 });
        const lease = await world.acquire(one, world.name());
        const lost = one.link.catch("renew", "silence");
        const renewing = lease.renew(world.ttlMs).catch((error: unknown) => error);
        await watch(world, lease, world.ttlMs / 5);
        assert.ok((await world.settle(renewing, world.ttlMs, "the renewal")) instanceof Error);
        assert.ok(lost.isMade);
        await watch(world, lease, world.ttlMs);
        assert.equal(lease.state, "held");
      },
    },
    {
      promise: "a late ask that arrives at a lease renewed for longer cuts no belief short",
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process();
        const late = one.link.catch("attempt", "held-request");
        const lease = await world.acquire(one, world.name());
        await lease.renew(world.ttlMs * 6);
        await late.deliver();
        await watch(world, lease, world.ttlMs * 1.2);
        assert.equal(lease.state, "held");
      },
    },
    {
      promise: "a late renewal for a shorter time leaves no belief that is longer",
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process({ requestTimeout: world.ttlMs / 4 });
        const lease = await world.acquire(one, world.name());
        await lease.renew(world.ttlMs * 6);
        const late = one.link.catch("renew", "held-request");
        await world.rejection(lease.renew(world.ttlMs), world.ttlMs, "the shorter renewal");
        await lease.renew(world.ttlMs * 6);
        await late.deliver();
        await watch(world, lease, world.ttlMs * 1.2);
        assert.equal(lease.state, "held");
      },
    },
  ],
};
