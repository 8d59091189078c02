import type { AcquireOptions } from "../../../core/lock-manager.ts";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

/** Whoever stands far back asks again so often, and after an offer has ended so long after the one before it. */
const REFRESH_MS = 20_000;
const NEXT_ASK_MS = 50;

/** `dead` waiters die in front of one that lives; with the holder, or just before it releases. */
async function passOver(
  world: FaultWorld,
  dead: number,
  holderDies: boolean,
  terms: AcquireOptions<never> = {},
  withinMs: number = world.turnMs(dead),
): Promise<void> {
  const name = world.name();
  const holder = await world.process();
  const held = await world.acquire(holder, name, terms);
  const victims = await world.processes(dead);
  for (const victim of victims) await world.waiting(victim, name, terms);
  const living = await world.process();
  const waiting = await world.waiting(living, name, terms);
  for (const victim of victims) await world.crash(victim);
  if (holderDies) await world.crash(holder);
  else await held.release();
  await world.settle(waiting.lease, withinMs, "the living one gets in");
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
    {
      promise: "many may die in line: whoever lives behind them asks at the end of each offer",
      async run(world: FaultWorld): Promise<void> {
        const dead = 8;
        const { liveness, ttl } = world.fixture.declares;
        const brief = world.fake === null && liveness === "ttl";
        const ttlMs = brief ? Math.max(ttl.minMs, 300) : world.ttlMs;
        const offerMs = Math.min(ttlMs, world.offerMs);
        // It stands so far back that it asks seldom while all is well.
        const firstAskMs = Math.min(REFRESH_MS, ttlMs + dead * offerMs);
        const eachMs = offerMs + dead * NEXT_ASK_MS + world.lagMs;
        await passOver(world, dead, true, brief ? { ttl: ttlMs } : {}, firstAskMs + dead * eachMs);
      },
    },
  ],
};
