import assert from "node:assert/strict";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** A renewal is under way while the lease is released. */
async function race(world: FaultWorld, fault: "held-request" | "held-reply"): Promise<void> {
  const name = world.name();
  const [one, two] = [await world.process(), await world.process()];
  const lease = await world.acquire(one, name);
  const renewal = one.link.catch("renew", fault);
  await world.until(() => renewal.isMade, world.ttlMs / 2 + world.lagMs, "the renewal is made");
  assert.equal(await world.settle(lease.release(), world.lagMs + 1000, "the release"), "released");
  await renewal.deliver();
  await world.wait(world.lagMs / 10);
  await world.becomesFree(name, world.lagMs);
  assert.equal(lease.state, "released");
  assert.equal(one.count("lost"), 0);
  const next = await world.acquire(two, name);
  assert.equal(next.takenOver, false);
  await world.wait(world.ttlMs / 2);
  assert.equal(next.state, "held");
  assert.equal(one.link.count("renew"), 1);
}

/** Release and renewal cross. */
export const releaseRaces: FaultModule = {
  name: "release and renewal cross",
  excuse: () => null,
  promises: [
    {
      promise: "a renewal that arrives after the release brings nothing back",
      async run(world: FaultWorld): Promise<void> {
        await race(world, "held-request");
      },
    },
    {
      promise: "a renewal's answer that comes after the release is no loss, and no renewal follows",
      async run(world: FaultWorld): Promise<void> {
        await race(world, "held-reply");
      },
    },
  ],
};
