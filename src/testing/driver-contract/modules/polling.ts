import assert from "node:assert/strict";
import type { ContractModule } from "../fixture.ts";
import { pair, type World } from "../world.ts";

/** Backends without a queue: waiters ask again. */
export const polling: ContractModule = {
  name: "polling",
  excuse: ({ declares }) =>
    declares.waiting === "queue" ? `waiting is "${declares.waiting}"` : null,
  promises: [
    {
      promise: "never claims to queue, and keeps no entry of those who wanted to",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        const held = await holder.hold(name);
        const busy = await other.busy(other.ask(name, { join: "yes" }));
        assert.equal(busy.queued, false);
        assert.deepEqual((await holder.inspect(name)).waiters, []);
        await holder.gives(held);
        await holder.hold(name);
      },
    },
    {
      promise: "whoever persists gets in after a release",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        const held = await holder.hold(name);
        const waiting = other.ask(name, { join: "yes" });
        await other.busy(waiting);
        await holder.gives(held);
        await other.takesOver(waiting, world.lagMs);
      },
    },
    {
      promise: "whoever persists gets in after the holder vanished, and not before",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, other] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.steady(async (valid) => {
          valid(world.shortMs);
          await lost.granted(held);
          await other.busy(other.ask(name, { join: "yes", ttlMs: world.shortMs }));
        });
        if (world.fixture.declares.liveness === "session") await world.vanish(lost, held);
        const waiting = other.ask(name, { join: "yes", ttlMs: world.shortMs });
        await other.takesOver(waiting, 2 * world.takeoverMs(held));
      },
    },
  ],
};
