import assert from "node:assert/strict";
import { type ContractModule, nobodyCounts, noTokens, noTtl } from "../fixture.ts";
import { pair, tokensOf, type World } from "../world.ts";

/** A renewal keeps what is there: it makes nothing, and changes nothing else. */
export const renew: ContractModule = {
  name: "renew",
  excuse: () => null,
  promises: [
    {
      promise: "a renewed lease outlives its first ttl",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [holder, other] = await pair(world);
          valid(world.shortMs);
          const held = await holder.hold(name, { ttlMs: world.shortMs });
          await world.wait(world.shortMs * 0.6);
          const sentAt = world.clock.mono();
          const [renewal] = await holder.renew(held);
          assert.equal(renewal?.kind, "renewed");
          valid(world.shortMs, sentAt);
          assert.ok(renewal.ttlMs >= world.shortMs);
          await world.wait(world.shortMs * 0.6);
          await other.busy(other.ask(name));
        });
      },
    },
    {
      promise: "a repeated ask renews as well",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [holder, other] = await pair(world);
          valid(world.shortMs);
          const held = await holder.hold(name, { ttlMs: world.shortMs });
          await world.wait(world.shortMs * 0.6);
          const sentAt = world.clock.mono();
          await holder.granted(held);
          valid(world.shortMs, sentAt);
          await world.wait(world.shortMs * 0.6);
          await other.busy(other.ask(name));
        });
      },
    },
    {
      promise: "a late repeated ask does not end a lease that was renewed for longer",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [holder, other] = await pair(world);
          valid(world.shortMs);
          const held = await holder.hold(name, { ttlMs: world.shortMs });
          const sentAt = world.clock.mono();
          const [renewal] = await holder.renew({ ...held, ttlMs: world.shortMs * 20 });
          assert.equal(renewal?.kind, "renewed");
          valid(world.shortMs * 20, sentAt);
          await holder.granted(held);
          await world.wait(world.shortMs + world.lagMs);
          await other.busy(other.ask(name));
        });
      },
    },
    {
      promise: "a renewal with a shorter ttl does not end a lease sooner",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [holder, other] = await pair(world);
          const held = await holder.hold(name, { ttlMs: world.shortMs * 20 });
          valid(world.shortMs * 20);
          const [renewal] = await holder.renew({ ...held, ttlMs: world.shortMs });
          assert.equal(renewal?.kind, "renewed");
          await world.wait(world.shortMs + world.lagMs);
          await other.busy(other.ask(name));
        });
      },
    },
    {
      promise: "a lease that is not renewed ends after its ttl, and not before",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        await world.steady(async (valid) => {
          const own = world.name();
          valid(world.shortMs);
          await holder.hold(own, { ttlMs: world.shortMs });
          await world.wait(world.shortMs * 0.8);
          await other.busy(other.ask(own));
        });
        await holder.hold(name, { ttlMs: world.shortMs });
        await world.wait(world.shortMs + world.lagMs);
        await other.hold(name);
      },
    },
    {
      promise: "a renewal never makes a lease: an unknown grant id is gone",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const [renewal] = await one.renew(one.ask(name));
        assert.equal(renewal?.kind, "gone");
        assert.deepEqual((await one.inspect(name)).holders, []);
        await two.hold(name);
      },
    },
    {
      promise: "a lease that ended is not revived",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, other] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        const [renewal] = await lost.renew(held);
        assert.equal(renewal?.kind, "gone");
        await other.hold(name);
      },
    },
    {
      promise:
        "the renewal of a lease that somebody took over is gone, and does not touch the new one",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        const taken = next.ask(name);
        await next.takesOver(taken, world.takeoverMs(held));
        const [renewal] = await lost.renew(held);
        assert.ok(renewal?.kind === "gone", renewal?.kind);
        assert.ok(["taken", "expired"].includes(renewal.reason), renewal.reason);
        const { holders } = await next.inspect(name);
        assert.deepEqual(
          holders.map(({ grantId }) => grantId),
          [taken.grantId],
        );
      },
    },
    {
      promise: "a renewal keeps the tokens",
      excuse: noTokens,
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const held = await party.hold(name);
        await party.renew(held);
        assert.deepEqual((await party.granted(held)).tokens, held.got.tokens);
        const [holder] = (await party.inspect(name)).holders;
        assert.equal(holder?.token, tokensOf(held.got).first);
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
        const kinds = (await party.renew(a, gone, b)).map(({ kind }) => kind);
        assert.deepEqual(kinds, ["renewed", "gone", "renewed"]);
        assert.deepEqual(await party.renew(), []);
      },
    },
    {
      promise: "renewing one name's lease under another name is gone",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        const party = await world.party();
        const held = await party.hold(world.name());
        const [renewal] = await party.renew({ ...held, name: world.name() });
        assert.equal(renewal?.kind, "gone");
      },
    },
  ],
};
