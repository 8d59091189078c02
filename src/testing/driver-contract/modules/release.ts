import assert from "node:assert/strict";
import { type ContractModule, noTtl } from "../fixture.ts";
import { pair, type World } from "../world.ts";

/** A release gives back one's own, and nothing else. */
export const release: ContractModule = {
  name: "release",
  excuse: () => null,
  promises: [
    {
      promise: "a release frees the name at once",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        await one.gives(await one.hold(name));
        assert.deepEqual((await two.inspect(name)).holders, []);
        await two.hold(name);
      },
    },
    {
      promise: "a release with another grant id frees nothing",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        await holder.hold(name);
        const [answer] = await other.release(other.ask(name));
        assert.equal(answer?.kind, "gone");
        await other.busy(other.ask(name));
      },
    },
    {
      promise: "a second release does not fail and does not touch the next holder",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const held = await one.hold(name);
        await one.gives(held);
        const [again] = await one.release(held);
        assert.notEqual(again?.kind, "failed");
        await two.hold(name);
        const [late] = await one.release(held);
        assert.equal(late?.kind, "gone");
        await one.busy(one.ask(name));
      },
    },
    {
      promise: "a release that comes after the lease was taken over is gone, and frees nothing",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        await next.takesOver(next.ask(name), world.takeoverMs(held));
        const [answer] = await lost.release(held);
        assert.equal(answer?.kind, "gone");
        await lost.busy(lost.ask(name));
      },
    },
    {
      promise: "a batch tells about each lease, in the order asked",
      async run(world: World): Promise<void> {
        const party = await world.party();
        const [a, gone, b] = [
          await party.hold(world.name()),
          await party.hold(world.name()),
          await party.hold(world.name()),
        ];
        await party.gives(gone);
        const kinds = (await party.release(a, gone, b)).map(({ kind }) => kind);
        assert.deepEqual(kinds, ["released", "gone", "released"]);
        assert.deepEqual(await party.release(), []);
        for (const { name } of [a, gone, b]) await party.hold(name);
      },
    },
  ],
};
