import assert from "node:assert/strict";
import { BackendUnavailableError, LeaseLostError } from "../../../core/errors.ts";
import { noTtl } from "../../driver-contract/fixture.ts";
import type { LinkState } from "../../faulty-driver.ts";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** A link goes as it should not while somebody waits: the holder must know before the waiter gets in. */
async function cutHolder(world: FaultWorld, state: LinkState): Promise<void> {
  const name = world.name();
  const [one, two] = [await world.process(), await world.process()];
  const lease = await world.acquire(one, name);
  const { signal } = lease;
  const waiting = await world.waiting(two, name);
  one.link.become(state);
  await world.until(
    () => signal.aborted,
    world.ttlMs + world.lagMs,
    "the holder's signal aborts without any reply",
  );
  assert.ok(signal.reason instanceof LeaseLostError);
  assert.equal(signal.reason.reason, "unreachable");
  const deadline = world.beliefs.deadlineOf(lease.grantId);
  // Requests that arrived may have kept the lease for another ttl.
  const next = await world.settle(
    waiting.lease,
    world.turnMs() + (state === "mute" ? world.ttlMs : 0),
    "the waiter gets in",
  );
  const enteredAt = world.beliefs.grantedAt(next.grantId) ?? 0;
  assert.ok(enteredAt >= deadline, `granted ${deadline - enteredAt} ms before the deadline`);
  one.link.become("clear");
  await world.wait(world.lagMs / 10);
  assert.equal(await lease.release(), "already-lost");
  assert.equal((await world.record(name)).held[0]?.grantId, next.grantId);
}

/** Nothing gets through, and nobody is told. */
export const silentLink: FaultModule = {
  name: "silent link",
  excuse: () => null,
  promises: [
    {
      promise: "a holder whose link is silent knows that it lost before the next one gets in",
      excuse: noTtl,
      async run(world: FaultWorld): Promise<void> {
        await cutHolder(world, "silent");
      },
    },
    {
      promise: "so does a holder whose requests arrive and whose replies do not",
      excuse: noTtl,
      async run(world: FaultWorld): Promise<void> {
        await cutHolder(world, "mute");
      },
    },
    {
      promise: "a silence that ends before the deadline costs no lease",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        one.link.become("silent");
        await world.wait(world.ttlMs / 2);
        one.link.become("clear");
        await world.wait(world.ttlMs);
        assert.equal(lease.state, "held");
        assert.equal(one.count("lost"), 0);
        assert.equal(await two.locks.tryAcquire(name), null);
      },
    },
    {
      promise: "a waiter whose link is silent holds up nobody, and is told of an outage",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, silent] = [await world.process(), await world.process()];
        const next = await world.process();
        const held = await world.acquire(holder, name);
        const deaf = await world.waiting(silent, name, { wait: world.turnMs(1) });
        const waiting = await world.waiting(next, name);
        silent.link.become("silent");
        await held.release();
        const lease = await world.settle(waiting.lease, world.turnMs(1), "the next one gets in");
        const error = await world.rejection(
          deaf.lease,
          world.turnMs(1) + 1000,
          "the silent waiter",
        );
        assert.ok(error instanceof BackendUnavailableError, String(error));
        assert.equal(lease.state, "held");
      },
    },
  ],
};
