import assert from "node:assert/strict";
import { anyOf, type ContractModule, noCounter, noQueue, noTtl } from "../fixture.ts";
import { pair, tokensOf, type World } from "../world.ts";

/** A successor is told whether its predecessor left work behind. */
export const takeover: ContractModule = {
  name: "takeover",
  excuse: () => null,
  promises: [
    {
      promise: "says that nothing was taken over from nobody, or from a holder that released",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const first = await one.hold(name);
        assert.equal(first.got.takenOver, false);
        await one.gives(first);
        assert.equal((await two.hold(name)).got.takenOver, false);
      },
    },
    {
      promise: "says that the previous holder never released, as often as it is asked",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        const ask = next.ask(name, { ttlMs: world.shortMs });
        assert.equal((await next.takesOver(ask)).takenOver, true);
        assert.equal((await next.granted(ask)).takenOver, true);
        await next.gives(ask);
        assert.equal((await next.hold(name)).got.takenOver, false);
      },
    },
    {
      promise: "knows the vanished holder's last token",
      excuse: noCounter,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        const got = await next.takesOver(next.ask(name));
        assert.equal(got.previousToken, tokensOf(held.got).last);
      },
    },
    {
      promise: "a waiter that gets the lock from a release takes nothing over",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name);
        await holder.gives(held);
        assert.equal((await waiter.granted({ ...waiting, join: "kept" })).takenOver, false);
      },
    },
    {
      promise: "an offer that nobody took is no holder that vanished",
      excuse: anyOf(noQueue, noTtl, noCounter),
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, dead] = await pair(world);
        const next = await world.party();
        const held = await holder.hold(name);
        await dead.queue(name, { ttlMs: world.shortMs });
        const waiting = await next.queue(name, { ttlMs: world.shortMs });
        await holder.gives(held);
        const got = await next.takesOver({ ...waiting, join: "kept" });
        assert.equal(got.takenOver, false);
      },
    },
  ],
};
