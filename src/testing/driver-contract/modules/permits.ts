import assert from "node:assert/strict";
import { type ContractModule, noQueue } from "../fixture.ts";
import { pair, type World } from "../world.ts";

const TWO = { mode: "permits", permits: 2 } as const;
const THREE = { mode: "permits", permits: 3 } as const;

/** So many holders at a time, and no more. */
export const permits: ContractModule = {
  name: "permits",
  excuse: ({ declares }) =>
    declares.modes.includes("permits") ? null : "there is no mode permits",
  promises: [
    {
      promise: "grants as many permits as there are, and not one more",
      async run(world: World): Promise<void> {
        const name = world.name();
        const parties = await world.parties(6);
        const answers = await Promise.all(
          parties.map(async (party) => party.attempt(party.ask(name, THREE))),
        );
        assert.equal(answers.filter(({ kind }) => kind === "granted").length, 3);
        const record = await (await world.party()).inspect(name);
        assert.deepEqual([record.mode, record.permits, record.holders.length], ["permits", 3, 3]);
      },
    },
    {
      promise: "each release gives back one permit",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const first = await one.hold(name, TWO);
        await two.hold(name, TWO);
        await one.busy(one.ask(name, TWO));
        await one.gives(first);
        await one.release(first);
        await two.hold(name, TWO);
        await one.busy(one.ask(name, TWO));
      },
    },
    {
      promise: "a repeated ask takes no second permit",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const { got, ...first } = await one.hold(name, TWO);
        assert.deepEqual(await one.granted(first), got);
        await two.hold(name, TWO);
      },
    },
    {
      promise: "permits carry no token",
      async run(world: World): Promise<void> {
        const party = await world.party();
        assert.equal((await party.hold(world.name(), TWO)).got.tokens, null);
      },
    },
    {
      promise: "another count is told the stored one while a permit is held, and changes nothing",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        await one.hold(name, TWO);
        for (const join of ["no", "yes"] as const)
          assert.deepEqual(await two.attempt(two.ask(name, { ...THREE, join })), {
            kind: "mismatch",
            permits: 2,
          });
        await two.hold(name, TWO);
        await one.busy(one.ask(name, TWO));
        assert.deepEqual((await two.inspect(name)).waiters, []);
      },
    },
    {
      promise: "another count is told the stored one while somebody waits",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const held = [await one.hold(name, TWO), await one.hold(name, TWO)];
        const waiting = await two.queue(name, TWO);
        for (const ask of held) await one.gives(ask);
        assert.equal((await one.attempt(one.ask(name, THREE))).kind, "mismatch");
        await two.granted({ ...waiting, join: "kept" });
      },
    },
    {
      promise: "the count may change once nobody holds a permit",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        await party.gives(await party.hold(name, TWO));
        for (let i = 0; i < 3; i += 1) await party.hold(name, THREE);
        await party.busy(party.ask(name, THREE));
      },
    },
    {
      promise: "the permit of a holder that vanished comes back",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { ...TWO, ttlMs: world.shortMs });
        await lost.hold(name, { ...TWO, ttlMs: world.shortMs });
        await world.vanish(lost, held);
        await next.takesOver(next.ask(name, { ...TWO, ttlMs: world.shortMs }));
        await next.takesOver(next.ask(name, { ...TWO, ttlMs: world.shortMs }));
      },
    },
    {
      promise: "waiters get their permits in order, as many as are free",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, first] = await pair(world);
        const [second, third] = await pair(world);
        const held = [await holder.hold(name, TWO), await holder.hold(name, TWO)] as const;
        const one = { ...(await first.queue(name, TWO)), join: "kept" } as const;
        const two = { ...(await second.queue(name, TWO)), join: "kept" } as const;
        const three = { ...(await third.queue(name, TWO)), join: "kept" } as const;
        await holder.gives(held[0]);
        await second.busy(two);
        await holder.busy(holder.ask(name, TWO));
        await holder.gives(held[1]);
        await third.busy(three);
        await second.granted(two);
        await first.granted(one);
        await third.busy(three);
      },
    },
  ],
};
