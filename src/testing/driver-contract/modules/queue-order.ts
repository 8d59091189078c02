import assert from "node:assert/strict";
import { type ContractModule, noQueue } from "../fixture.ts";
import { pair, type World } from "../world.ts";

/** Waiters come in by the order of their arrival. */
export const queueOrder: ContractModule = {
  name: "queue order",
  excuse: noQueue,
  promises: [
    {
      promise: "lets waiters in by the order of their arrival",
      async run(world: World): Promise<void> {
        const name = world.name();
        const holder = await world.party();
        const held = await holder.hold(name);
        const waiters = [];
        for (const party of await world.parties(5))
          waiters.push({ party, ask: await party.queue(name) });
        await holder.gives(held);
        for (const [head, { party, ask }] of waiters.entries()) {
          // The last asks first: only its place may decide.
          for (const later of waiters.slice(head + 1).reverse())
            await later.party.busy({ ...later.ask, join: "kept" });
          await party.granted({ ...ask, join: "kept" });
          await party.gives(ask);
        }
      },
    },
    {
      promise: "asking again does not lose the place",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, first] = await pair(world);
        const second = await world.party();
        const held = await holder.hold(name);
        const one = await first.queue(name);
        const two = await second.queue(name);
        await first.busy({ ...one, join: "yes" });
        await first.busy({ ...one, join: "kept" });
        await holder.gives(held);
        await second.busy({ ...two, join: "kept" });
        await first.granted({ ...one, join: "kept" });
      },
    },
    {
      promise: "nobody who comes later overtakes a live waiter, joining or not",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const late = await world.party();
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name);
        await holder.gives(held);
        await late.busy(late.ask(name));
        await late.queue(name);
        await holder.busy(holder.ask(name));
        await waiter.granted({ ...waiting, join: "kept" });
      },
    },
    {
      promise: "a release wakes the oldest waiter, and no other",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, first] = await pair(world);
        const [second, third] = await pair(world);
        const held = await holder.hold(name);
        const one = await first.queue(name);
        const two = await second.queue(name);
        const three = await third.queue(name);
        await holder.gives(held);
        assert.ok(await world.comes(() => first.wakes(one) > 0), "the oldest was not woken");
        assert.deepEqual([second.wakes(two), third.wakes(three)], [0, 0]);
        await first.granted({ ...one, join: "kept" });
        await first.gives(one);
        assert.ok(await world.comes(() => second.wakes(two) > 0), "the second was not woken");
        assert.equal(third.wakes(three), 0);
      },
    },
    {
      promise: "a waiter that leaves is in nobody's way, and is told that it left",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, first] = await pair(world);
        const second = await world.party();
        const held = await holder.hold(name);
        const one = await first.queue(name);
        const two = await second.queue(name);
        await first.gives(one);
        await holder.gives(held);
        await second.granted({ ...two, join: "kept" });
      },
    },
    {
      promise: "a waiter that leaves when its turn has come passes it on",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, first] = await pair(world);
        const second = await world.party();
        const held = await holder.hold(name);
        const one = await first.queue(name);
        const two = await second.queue(name);
        await holder.gives(held);
        await first.gives(one);
        assert.ok(await world.comes(() => second.wakes(two) > 0), "the next was not woken");
        await second.granted({ ...two, join: "kept" });
      },
    },
    {
      promise: "an entry that is gone is not made again under the same grant id",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name);
        await waiter.gives(waiting);
        assert.equal((await waiter.attempt({ ...waiting, join: "kept" })).kind, "vanished");
        assert.deepEqual((await waiter.inspect(name)).waiters, []);
        await holder.gives(held);
        // Nor does it become the holder of a name that has meanwhile become free.
        assert.equal((await waiter.attempt({ ...waiting, join: "kept" })).kind, "vanished");
        await holder.hold(name);
      },
    },
    {
      promise: "shows its live waiters in their order, and who they are",
      async run(world: World): Promise<void> {
        const name = world.name();
        const holder = await world.party();
        await holder.hold(name);
        const expected = [];
        for (const party of await world.parties(3)) {
          const { grantId } = await party.queue(name);
          expected.push({ grantId, holder: party.label });
        }
        assert.deepEqual((await holder.inspect(name)).waiters, expected);
      },
    },
    {
      promise: "those behind need not ask again before those in front",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, first] = await pair(world);
        const second = await world.party();
        await holder.hold(name);
        const one = await first.queue(name);
        const two = await second.queue(name);
        assert.ok(one.told.askAgainMs > 0 && one.told.keepEntryMs > 0);
        assert.ok(two.told.askAgainMs >= one.told.askAgainMs - world.lagMs);
      },
    },
  ],
};
