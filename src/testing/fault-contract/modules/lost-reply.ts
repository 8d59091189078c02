import assert from "node:assert/strict";
import { BackendUnavailableError } from "../../../core/errors.ts";
import type { FaultModule } from "../fixture.ts";
import { type FaultWorld, tokenOf } from "../world.ts";

const WAYS = ["silence", "reset"] as const;

/** The store did what it was asked, and its reply never came. */
export const lostReply: FaultModule = {
  name: "lost replies",
  excuse: () => null,
  promises: [
    {
      promise: "an acquire whose reply was lost becomes the one grant that the store made",
      async run(world: FaultWorld): Promise<void> {
        for (const way of WAYS) {
          const name = world.name();
          const one = await world.process();
          const lost = one.link.catch("attempt", way);
          const lease = await world.acquire(one, name);
          assert.ok(lost.isMade);
          const { held } = await world.record(name);
          assert.deepEqual(
            held.map(({ grantId, token }) => ({ grantId, token })),
            [{ grantId: lease.grantId, token: tokenOf(lease) }],
          );
          assert.equal(world.beliefs.grantsOf(name), 1);
          const first = lost.answer as { readonly tokens: { readonly first: bigint } | null };
          assert.equal(first.tokens?.first ?? null, tokenOf(lease));
          assert.equal(await lease.release(), "released");
          await world.becomesFree(name, world.lagMs);
        }
      },
    },
    {
      promise: "a try whose reply was lost fails, and leaves no holder behind",
      async run(world: FaultWorld): Promise<void> {
        for (const way of WAYS) {
          const name = world.name();
          const one = await world.process();
          one.link.catch("attempt", way);
          const error = await world.rejection(
            one.locks.tryAcquire(name),
            world.ttlMs,
            "a try whose reply was lost",
          );
          assert.ok(error instanceof BackendUnavailableError, String(error));
          assert.equal(error.outcome, "unknown");
          // Undone at once, long before its ttl would free it.
          await world.becomesFree(name, world.lagMs + world.ttlMs / 10);
        }
      },
    },
    {
      promise: "a waiter whose granting reply was lost gets in with that grant",
      async run(world: FaultWorld): Promise<void> {
        for (const way of WAYS) {
          const name = world.name();
          const [holder, waiter] = [await world.process(), await world.process()];
          const held = await world.acquire(holder, name);
          const waiting = await world.waiting(waiter, name);
          waiter.link.catch("attempt", way);
          await held.release();
          const lease = await world.settle(
            waiting.lease,
            world.turnMs() + world.ttlMs,
            "the waiter gets in",
          );
          assert.equal(world.beliefs.grantsOf(name), 2);
          assert.equal((await world.record(name)).held[0]?.grantId, lease.grantId);
          assert.equal(await lease.release(), "released");
          await world.becomesFree(name, world.lagMs);
        }
      },
    },
    {
      promise: "a lost reply to a waiter leaves one place in the queue, and none when it goes",
      async run(world: FaultWorld): Promise<void> {
        for (const way of WAYS) {
          const name = world.name();
          const [holder, waiter] = [await world.process(), await world.process()];
          const held = await world.acquire(holder, name);
          waiter.link.catch("attempt", way);
          const leaving = new AbortController();
          const again = waiter.link.count("attempt") + 1;
          const waiting = waiter.locks.acquire(name, { signal: leaving.signal });
          waiting.catch(() => undefined);
          await world.until(
            () => waiter.link.count("attempt") > again,
            world.turnMs(),
            "the waiter asks again",
          );
          await world.wait(world.lagMs / 10);
          const queued = world.fixture.declares.waiting === "queue" ? 1 : 0;
          assert.equal((await world.record(name)).pending.length, queued);
          leaving.abort(new Error("enough"));
          await world.rejection(waiting, world.lagMs + 1000, "the waiter leaves");
          // A store that is slow to take it back is asked again behind the scenes.
          const end = world.clock.mono() + world.lagMs + 1000;
          while ((await world.record(name)).pending.length > 0) {
            assert.ok(world.clock.mono() < end, "the waiter has left, and its place is there");
            await world.wait(world.ttlMs / 20);
          }
          await held.release();
        }
      },
    },
    {
      promise: "a renewal whose reply was lost loses no lease",
      async run(world: FaultWorld): Promise<void> {
        for (const way of [...WAYS, "dropped"] as const) {
          const name = world.name();
          const one = await world.process();
          const lease = await world.acquire(one, name);
          const token = tokenOf(lease);
          const lost = one.link.catch("renew", way);
          await world.wait(world.ttlMs * 1.2);
          assert.ok(lost.isMade);
          assert.equal(lease.state, "held");
          assert.equal(tokenOf(lease), token);
          assert.equal(one.count("lost"), 0);
          assert.equal((await world.record(name)).held[0]?.grantId, lease.grantId);
          await lease.release();
          if (world.fake === null) break;
        }
      },
    },
    {
      promise: "a release whose reply was lost is a release, and frees the name",
      async run(world: FaultWorld): Promise<void> {
        for (const way of [...WAYS, "dropped"] as const) {
          const name = world.name();
          const one = await world.process();
          const lease = await world.acquire(one, name);
          one.link.catch("release", way);
          let outcome = await world.settle(lease.release(), world.ttlMs, "the release");
          if (outcome === "unknown")
            outcome = await world.settle(lease.release(), world.ttlMs, "the second release");
          assert.equal(outcome, "released");
          assert.equal(one.count("lost"), 0);
          await world.becomesFree(name, world.lagMs + world.ttlMs / 10);
        }
      },
    },
  ],
};
