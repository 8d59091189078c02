import assert from "node:assert/strict";
import { type ContractModule, noCounter } from "../fixture.ts";
import { pair, tokensOf, type World } from "../world.ts";

/** Several tokens reserved in one granting step, for hand-off inside a process. */
export const blocks: ContractModule = {
  name: "blocks",
  excuse: noCounter,
  promises: [
    {
      promise: "gives as many tokens as were asked for",
      async run(world: World): Promise<void> {
        const party = await world.party();
        for (const tokens of [1, 2, 64]) {
          const { got } = await party.hold(world.name(), { tokens });
          assert.equal(got.tokens?.count, tokens);
        }
      },
    },
    {
      promise: "every later grant's tokens are above the whole block, after a release",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        const before = await holder.hold(name);
        await holder.gives(before);
        // Far ahead of any clock, which would else pass the end of the block by itself and hide an overlap.
        const above = tokensOf(before.got).last + 10n ** 15n;
        const held = await holder.hold(name, { tokens: 64, above });
        await holder.gives(held);
        const next = await other.hold(name);
        assert.ok(tokensOf(next.got).first > tokensOf(held.got).last);
        await other.gives(next);
        assert.ok(tokensOf((await holder.hold(name)).got).first > tokensOf(next.got).last);
      },
    },
    {
      promise: "every later grant's tokens are above the whole block, after the holder vanished",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { tokens: 64, ttlMs: world.shortMs });
        await world.vanish(lost, held);
        const got = await next.takesOver(next.ask(name, { ttlMs: world.shortMs }));
        assert.ok(tokensOf(got).first > tokensOf(held.got).last);
      },
    },
    {
      promise: "a repeated ask gives the block that the grant has, whatever it asks for now",
      async run(world: World): Promise<void> {
        const party = await world.party();
        const { got, ...ask } = await party.hold(world.name(), { tokens: 8 });
        assert.deepEqual((await party.granted({ ...ask, tokens: 1 })).tokens, got.tokens);
        assert.deepEqual((await party.granted({ ...ask, tokens: 32 })).tokens, got.tokens);
      },
    },
    {
      promise: "shows the first and the last token of the block to people",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const { got } = await party.hold(name, { tokens: 8 });
        const { first, last } = tokensOf(got);
        const [holder] = (await party.inspect(name)).holders;
        assert.deepEqual([holder?.token, holder?.lastToken], [first, last]);
      },
    },
    {
      promise: "the previous token that a successor is told is the block's last",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const held = await party.hold(name, { tokens: 8 });
        await party.gives(held);
        const { previousToken } = (await party.hold(name)).got;
        if (previousToken !== null) assert.equal(previousToken, tokensOf(held.got).last);
      },
    },
  ],
};
