import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** `dead` waiters die in front of one that lives; with the holder, or just before it releases. */
async function passOver(world: FaultWorld, dead: number, holderDies: boolean): Promise<void> {
  const name = world.name();
  const holder = await world.process();
  const held = await world.acquire(holder, name);
  const victims = await world.processes(dead);
  for (const victim of victims) await world.waiting(victim, name);
  const living = await world.process();
  const waiting = await world.waiting(living, name);
  for (const victim of victims) await world.crash(victim);
  if (holderDies) await world.crash(holder);
  else await held.release();
  await world.settle(waiting.lease, world.turnMs(dead), "the living one gets in");
}

/** Whoever died in the queue holds up the others for one offer at most. */
export const deadWaiter: FaultModule = {
  name: "dead waiters",
  excuse: () => null,
  promises: [
    {
      promise: "an offer to a dead waiter lapses, and the next one gets in",
      async run(world: FaultWorld): Promise<void> {
        await passOver(world, 1, false);
      },
    },
    {
      promise: "a holder's death is survived by the one who waits for it",
      async run(world: FaultWorld): Promise<void> {
        await passOver(world, 0, true);
      },
    },
    {
      promise: "holder and head of the queue may die together",
      async run(world: FaultWorld): Promise<void> {
        await passOver(world, 1, true);
      },
    },
    {
      promise: "so may the holder and three waiters: each costs one offer at most",
      async run(world: FaultWorld): Promise<void> {
        await passOver(world, 3, true);
      },
    },
  ],
};
