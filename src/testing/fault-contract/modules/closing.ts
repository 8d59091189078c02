import assert from "node:assert/strict";
import { ManagerClosedError } from "../../../core/errors.ts";
import type { LinkState } from "../../faulty-driver.ts";
import type { FaultModule } from "../fixture.ts";
import type { Process } from "../process.ts";
import type { FaultWorld } from "../world.ts";

/** Fails unless the closed manager has nothing open and never asks for anything again. */
async function isOver(world: FaultWorld, closed: Process): Promise<void> {
  assert.equal(closed.clock.pending, 0, "a timer is left");
  const steps = closed.link.count();
  assert.deepEqual(closed.link.backends, [], "a backend is left open");
  await world.wait(world.ttlMs);
  assert.equal(closed.link.count(), steps, "steps after the close");
  assert.deepEqual(closed.link.backends, [], "a backend was opened again");
  assert.equal(closed.clock.pending, 0, "a timer was started");
}

async function closeIn(world: FaultWorld, state: LinkState): Promise<void> {
  const name = world.name();
  const [one, two] = [await world.process(), await world.process()];
  await world.acquire(one, name);
  const other = await world.acquire(two, world.name());
  const waiting = await world.waiting(one, other.name);
  one.link.become(state);
  // Into the middle of a renewal.
  await world.wait(world.ttlMs * 0.4);
  await world.settle(one.locks.close(), world.ttlMs + world.lagMs, "the close");
  const error = await world.rejection(waiting.lease, world.lagMs, "the wait");
  assert.ok(error instanceof ManagerClosedError, String(error));
  await isOver(world, one);
  one.link.become("clear");
  await world.acquire(two, name);
}

/** A manager that was closed leaves nothing: no timer, no connection, no request. */
export const closing: FaultModule = {
  name: "closing",
  excuse: () => null,
  promises: [
    {
      promise: "a manager that was closed leaves no timer, no backend and no lease",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        await world.acquire(one, name);
        const other = await world.acquire(two, world.name());
        const waiting = await world.waiting(one, other.name);
        await world.settle(one.locks.close(), world.ttlMs + world.lagMs, "the close");
        const error = await world.rejection(waiting.lease, world.lagMs, "the wait");
        assert.ok(error instanceof ManagerClosedError, String(error));
        assert.deepEqual((await world.record(name)).held, []);
        assert.deepEqual((await world.record(other.name)).pending, []);
        await isOver(world, one);
      },
    },
    {
      promise: "nor does one that was closed while the backend refused everything",
      async run(world: FaultWorld): Promise<void> {
        await closeIn(world, "refusing");
      },
    },
    {
      promise: "nor does one that was closed while the link was silent",
      async run(world: FaultWorld): Promise<void> {
        await closeIn(world, "silent");
      },
    },
  ],
};
