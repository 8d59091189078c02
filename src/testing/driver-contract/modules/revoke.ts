import assert from "node:assert/strict";
import { type ContractModule, nobodyCounts, noQueue } from "../fixture.ts";
import { pair, type World } from "../world.ts";

const DELAY_MS = 60_000;

/** An operator frees one grant, and no other. */
export const revoke: ContractModule = {
  name: "revoke",
  excuse: () => null,
  promises: [
    {
      promise: "frees the grant, and its holder is told at the next renewal",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, operator] = await pair(world);
        const held = await holder.hold(name);
        assert.equal((await operator.revoke(name, held.grantId)).kind, "released");
        const [renewal] = await holder.renew(held);
        assert.deepEqual(renewal, { kind: "gone", reason: "revoked" });
        await operator.hold(name);
      },
    },
    {
      promise: "another grant id frees nothing",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, operator] = await pair(world);
        const held = await holder.hold(name);
        assert.equal((await operator.revoke(name, world.id())).kind, "gone");
        assert.equal((await operator.revoke(world.name(), held.grantId)).kind, "gone");
        await operator.busy(operator.ask(name));
      },
    },
    {
      promise: "never hits the next holder",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [first, next] = await pair(world);
        const held = await first.hold(name);
        await first.gives(held);
        const current = await next.hold(name);
        for (const now of [false, true])
          assert.equal((await first.revoke(name, held.grantId, now)).kind, "gone");
        const [renewal] = await next.renew(current);
        assert.equal(renewal?.kind, "renewed");
        await first.busy(first.ask(name));
      },
    },
    {
      promise: "waits for the lock-delay, unless it shall be now",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        const [quiet, urgent] = [world.name(), world.name()];
        const [holder, operator] = await pair(world);
        const one = await holder.hold(quiet, { lockDelayMs: DELAY_MS });
        const two = await holder.hold(urgent, { lockDelayMs: DELAY_MS });
        await operator.revoke(quiet, one.grantId);
        await operator.revoke(urgent, two.grantId, true);
        const busy = await operator.busy(operator.ask(quiet));
        assert.equal(busy.blockedBy, "lock-delay");
        await operator.hold(urgent);
        const kinds = (await holder.renew(one, two)).map(({ kind }) => kind);
        assert.deepEqual(kinds, ["gone", "gone"]);
      },
    },
    {
      promise: "the oldest waiter is next",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const operator = await world.party();
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name);
        await operator.revoke(name, held.grantId);
        await operator.busy(operator.ask(name));
        assert.ok(await world.comes(() => waiter.wakes(waiting) > 0), "the oldest was not woken");
        await waiter.granted({ ...waiting, join: "kept" });
      },
    },
    {
      promise: "frees one of several readers only",
      excuse: ({ declares }) =>
        declares.modes.includes("shared") ? null : "there is no mode shared",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const revoked = await one.hold(name, { mode: "shared" });
        const kept = await two.hold(name, { mode: "shared" });
        await one.revoke(name, revoked.grantId);
        const renewals = [...(await one.renew(revoked)), ...(await two.renew(kept))];
        assert.deepEqual(
          renewals.map(({ kind }) => kind),
          ["gone", "renewed"],
        );
        await one.busy(one.ask(name));
      },
    },
  ],
};
