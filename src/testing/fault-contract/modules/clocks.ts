import assert from "node:assert/strict";
import { AcquireTimeoutError, LeaseLostError } from "../../../core/errors.ts";
import { anyOf, noTokens, noTtl, realTime } from "../../driver-contract/fixture.ts";
import type { FaultModule } from "../fixture.ts";
import { type FaultWorld, tokenOf } from "../world.ts";

const TEN_MINUTES_MS = 600_000;

/** Wall clocks that jump, and hosts that sleep. */
export const clocks: FaultModule = {
  name: "clock steps",
  excuse: () => null,
  promises: [
    {
      promise: "ten minutes forward under a holder cost one early renewal and nothing else",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        const token = tokenOf(lease);
        one.clock.stepWall(TEN_MINUTES_MS);
        assert.notEqual(lease.state, "lost");
        await world.wait(world.lagMs / 4);
        assert.equal(one.link.count("renew"), 1);
        assert.equal(lease.state, "held");
        assert.equal(await two.locks.tryAcquire(name), null);
        await world.wait(world.ttlMs * 1.2);
        assert.equal(lease.state, "held");
        assert.equal(tokenOf(lease), token);
        assert.equal(one.count("lost"), 0);
        assert.ok(one.link.count("renew") < 8, "renewals in a row");
      },
    },
    {
      promise: "ten minutes back under a holder change nothing",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        one.clock.stepWall(-TEN_MINUTES_MS);
        assert.equal(lease.state, "held");
        await world.wait(world.lagMs / 4);
        assert.equal(one.link.count("renew"), 0);
        await world.wait(world.ttlMs * 1.2);
        assert.equal(lease.state, "held");
        assert.equal(one.count("jeopardy"), 0);
        assert.equal(await two.locks.tryAcquire(name), null);
      },
    },
    {
      promise: "a waiter whose wall clock jumps gets in no earlier, and waits as long as it said",
      async run(world: FaultWorld): Promise<void> {
        for (const step of [TEN_MINUTES_MS, -TEN_MINUTES_MS]) {
          const name = world.name();
          const [holder, waiter] = [await world.process(), await world.process()];
          const held = await world.acquire(holder, name);
          const wait = world.ttlMs;
          const startedAt = world.clock.mono();
          const waiting = await world.waiting(waiter, name, { wait });
          waiter.clock.stepWall(step);
          assert.equal(await waiter.locks.tryAcquire(name), null);
          const error = await world.rejection(waiting.lease, wait + world.lagMs + 1000, "the wait");
          assert.ok(error instanceof AcquireTimeoutError, String(error));
          assert.ok(world.clock.mono() - startedAt >= wait - 1);
          assert.equal(held.state, "held");
          if (world.fake === null) break;
        }
      },
    },
    {
      promise: "a holder that dies keeps its lease for its ttl though the waiter's clock jumps",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, waiter] = [await world.process(), await world.process()];
        const lease = await world.acquire(holder, name);
        const waiting = await world.waiting(waiter, name);
        const deadline = world.beliefs.deadlineOf(lease.grantId);
        await world.crash(holder);
        waiter.clock.stepWall(TEN_MINUTES_MS);
        const next = await world.settle(waiting.lease, world.turnMs(), "the waiter gets in");
        const early = deadline - (world.beliefs.grantedAt(next.grantId) ?? 0);
        const { liveness } = world.fixture.declares;
        assert.ok(liveness === "session" || early <= 0, `granted ${early} ms too early`);
      },
    },
    {
      promise: "tokens rise though the next holder's wall clock is ten minutes behind",
      excuse: noTokens,
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const first = await world.acquire(one, name);
        await first.release();
        two.clock.stepWall(-TEN_MINUTES_MS);
        const second = await world.acquire(two, name);
        assert.ok((tokenOf(second) ?? 0n) > (tokenOf(first) ?? 0n));
      },
    },
    {
      promise: "a host that slept through the ttl finds the lease lost at the first read",
      excuse: realTime,
      async run(world: FaultWorld): Promise<void> {
        const one = await world.process();
        const lease = await world.acquire(one, world.name());
        world.fake?.suspend(world.ttlMs);
        assert.equal(lease.remainingMs(), 0);
        assert.throws(() => {
          lease.assertHeld();
        }, LeaseLostError);
        assert.equal(lease.signal.aborted, true);
        await world.wait(0);
        assert.equal(one.count("lost"), 1);
      },
    },
    {
      promise: "a host that slept tells its holders without being asked, and its waiters wait on",
      excuse: anyOf(realTime, noTtl),
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        const { signal } = lease;
        const waiting = await world.waiting(two, name, { wait: 6 * world.ttlMs });
        world.fake?.suspend(TEN_MINUTES_MS);
        // The monotonic clock stood still, so the renewal that was due is what looks at the clock.
        await world.until(() => signal.aborted, world.ttlMs / 2, "the holder is told");
        await world.settle(waiting.lease, world.turnMs(), "the waiter gets in");
      },
    },
  ],
};
