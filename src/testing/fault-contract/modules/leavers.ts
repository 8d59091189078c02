import assert from "node:assert/strict";
import type { StepFault } from "../../faulty-driver.ts";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** `leaver` stops waiting with this fault on its way out; then the holder releases and the next one must get in. */
async function leave(
  world: FaultWorld,
  how: "timeout" | "abort",
  fault: StepFault | null,
): Promise<void> {
  const name = world.name();
  const [holder, leaver] = [await world.process(), await world.process()];
  const next = await world.process();
  const held = await world.acquire(holder, name);
  const leaving = new AbortController();
  const wait = how === "timeout" ? world.ttlMs / 4 : "forever";
  const waiting = await world.waiting(leaver, name, { wait, signal: leaving.signal });
  const other = await world.waiting(next, name);
  if (fault !== null) leaver.link.catch("release", fault);
  if (how === "abort") leaving.abort(new Error("enough"));
  await world.rejection(waiting.lease, world.ttlMs / 2 + 1000, "the leaver");
  // What the leaver's clean-up could not do at once it does in the background.
  if (fault !== null) await world.wait(world.ttlMs);
  const { pending } = await world.record(name);
  const queued = world.fixture.declares.waiting === "queue" ? 1 : 0;
  assert.equal(pending.length, queued, "the leaver still queues");
  await held.release();
  const lease = await world.settle(other.lease, world.turnMs(), "the next gets in");
  assert.equal(world.beliefs.grantsOf(name), 2);
  assert.equal(leaver.count("acquired"), 0);
  await lease.release();
  await world.becomesFree(name, world.lagMs);
}

/** Whoever stopped waiting never becomes a holder. */
export const leavers: FaultModule = {
  name: "waiters that leave",
  excuse: () => null,
  promises: [
    {
      promise: "a waiter that timed out never becomes a holder",
      async run(world: FaultWorld): Promise<void> {
        await leave(world, "timeout", null);
      },
    },
    {
      promise: "a waiter that was aborted never becomes a holder",
      async run(world: FaultWorld): Promise<void> {
        await leave(world, "abort", null);
      },
    },
    {
      promise: "nor does one whose good-bye was lost on its way",
      async run(world: FaultWorld): Promise<void> {
        await leave(world, "abort", "dropped");
        if (world.fake !== null) await leave(world, "timeout", "silence");
      },
    },
    {
      promise: "a grant that races with an abort is undone at once",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [holder, leaver] = [await world.process(), await world.process()];
        const held = await world.acquire(holder, name);
        const leaving = new AbortController();
        const waiting = await world.waiting(leaver, name, { signal: leaving.signal });
        const granting = leaver.link.catch("attempt", "held-reply");
        await held.release();
        await world.until(() => granting.isMade, world.turnMs(), "the waiter asks");
        leaving.abort(new Error("enough"));
        await world.rejection(waiting.lease, 1000 + world.lagMs, "the abort");
        void granting.deliver();
        await world.becomesFree(name, world.lagMs + world.ttlMs / 10);
        assert.equal(leaver.count("acquired"), 0);
      },
    },
  ],
};
