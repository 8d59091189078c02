import assert from "node:assert/strict";
import type { Ask, Granted } from "../../../core/driver.ts";
import { type ContractModule, nobodyCounts, noCounter, noTokens } from "../fixture.ts";
import { type Party, pair, said, tokensOf, type World } from "../world.ts";

const IO = { timeoutMs: 30_000, signal: new AbortController().signal };

type Exchanged = Granted | { readonly kind: "gone"; readonly reason: string };

async function exchange(party: Party, from: string, ask: Ask): Promise<Exchanged> {
  const { backend } = party;
  assert.ok(backend.exchange !== undefined, "expected a driver with transfer to have `exchange`");
  return await backend.exchange(from, ask, IO);
}

async function exchanged(party: Party, from: string, ask: Ask): Promise<Granted> {
  const answer = await exchange(party, from, ask);
  assert.equal(answer.kind, "granted", `expected an exchange, got ${said(answer)}`);
  return answer;
}

/** A lease that changes hands without being free in between. */
export const transfers: ContractModule = {
  name: "exchange",
  excuse: ({ declares }) => (declares.transfer === "no" ? 'transfer is "no"' : null),
  promises: [
    {
      promise: "the record of the old grant id becomes the new one's",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const held = await from.hold(name);
        const ask = to.ask(name);
        await exchanged(to, held.grantId, ask);
        const { holders } = await from.inspect(name);
        assert.deepEqual(
          holders.map(({ grantId, holder }) => ({ grantId, holder })),
          [{ grantId: ask.grantId, holder: ask.holder }],
        );
        await to.gives(ask);
        await from.hold(name);
      },
    },
    {
      promise: "the new grant has a larger token",
      excuse: noTokens,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const held = await from.hold(name);
        const got = await exchanged(to, held.grantId, to.ask(name));
        assert.ok(tokensOf(got).first > tokensOf(held.got).last);
      },
    },
    {
      promise: "the new grant's token exceeds a whole block of the old one",
      excuse: noCounter,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const held = await from.hold(name, { tokens: 64 });
        const got = await exchanged(to, held.grantId, to.ask(name));
        assert.ok(tokensOf(got).first > tokensOf(held.got).last);
      },
    },
    {
      promise: "a grant is exchanged once: a second taker finds it gone",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const held = await from.hold(name);
        const ask = to.ask(name);
        await exchanged(to, held.grantId, ask);
        const second = await exchange(from, held.grantId, from.ask(name));
        assert.equal(second.kind, "gone");
        const { holders } = await from.inspect(name);
        assert.deepEqual(
          holders.map(({ grantId }) => grantId),
          [ask.grantId],
        );
      },
    },
    {
      promise: "the same exchange asked again is the same grant",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const held = await from.hold(name);
        const ask = to.ask(name);
        const first = await exchanged(to, held.grantId, ask);
        const again = await exchanged(to, held.grantId, ask);
        assert.deepEqual(again.tokens, first.tokens);
        assert.equal((await from.inspect(name)).holders.length, 1);
        assert.deepEqual((await to.granted(ask)).tokens, first.tokens);
      },
    },
    {
      promise: "the old grant id renews and releases as gone, and cannot ask its way back",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const held = await from.hold(name);
        const ask = to.ask(name);
        await exchanged(to, held.grantId, ask);
        assert.equal((await from.renew(held))[0]?.kind, "gone");
        assert.equal((await from.release(held))[0]?.kind, "gone");
        assert.notEqual((await from.attempt(held)).kind, "granted");
        assert.equal((await to.renew(ask))[0]?.kind, "renewed");
        await to.gives(ask);
        assert.notEqual((await from.attempt(held)).kind, "granted");
      },
    },
    {
      promise: "the new grant's ttl is its own, and starts at the exchange",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [from, to] = await pair(world);
          valid(world.shortMs);
          const held = await from.hold(name, { ttlMs: world.shortMs });
          await world.wait(world.shortMs / 2);
          const ask = to.ask(name, { ttlMs: world.shortMs });
          const sentAt = world.clock.mono();
          await exchanged(to, held.grantId, ask);
          valid(world.shortMs, sentAt);
          await world.wait(world.shortMs * 0.75);
          await from.busy(from.ask(name));
        });
      },
    },
    {
      promise: "a lease that lapsed or was released is not exchanged",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const lapsed = await from.hold(name, { ttlMs: world.shortMs });
        await world.wait(world.shortMs + world.lagMs);
        assert.equal((await exchange(to, lapsed.grantId, to.ask(name))).kind, "gone");
        const released = await from.hold(name);
        await from.gives(released);
        assert.equal((await exchange(to, released.grantId, to.ask(name))).kind, "gone");
        assert.deepEqual((await to.inspect(name)).holders, []);
      },
    },
    {
      promise: "those who wait are not overtaken by it, nor let in",
      excuse: ({ declares }) =>
        declares.waiting === "queue" ? null : `waiting is "${declares.waiting}"`,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [from, to] = await pair(world);
        const next = await world.party();
        const held = await from.hold(name);
        const waiting = await next.queue(name);
        const ask = to.ask(name);
        await exchanged(to, held.grantId, ask);
        await next.busy({ ...waiting, join: "kept" });
        await to.gives(ask);
        const got = await next.granted({ ...waiting, join: "kept" });
        assert.equal(got.takenOver, false);
      },
    },
  ],
};
