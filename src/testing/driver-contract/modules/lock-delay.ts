import assert from "node:assert/strict";
import { anyOf, type ContractModule, nobodyCounts, noQueue, noTtl } from "../fixture.ts";
import { pair, said, type World } from "../world.ts";

/** Quiet time after a holder vanished, and only then. */
export const lockDelay: ContractModule = {
  name: "lock-delay",
  excuse: () => null,
  promises: [
    {
      promise: "keeps others out for its length after a holder vanished, and says why",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        const [lost, next] = await pair(world);
        const lockDelayMs = world.shortMs + 4 * world.lagMs;
        let name = "";
        await world.steady(async (valid) => {
          // A new one each time: where the process stalled, the last one may have gone to the next.
          name = world.name();
          valid(world.shortMs + lockDelayMs);
          const held = await lost.hold(name, { ttlMs: world.shortMs, lockDelayMs });
          await world.wait(world.shortMs + world.lagMs);
          const busy = await next.busy(next.ask(name));
          assert.equal(busy.blockedBy, "lock-delay");
          assert.ok((await next.inspect(name)).lockDelayMs > 0);
          const [renewal] = await lost.renew(held);
          assert.equal(renewal?.kind, "gone");
          await world.wait(lockDelayMs - 2 * world.lagMs - 1);
          await next.busy(next.ask(name));
        });
        await next.takesOver(next.ask(name), 3 * world.lagMs + 1);
      },
    },
    {
      promise: "ends: whoever persists gets in",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const terms = { ttlMs: world.shortMs, lockDelayMs: world.shortMs / 2 };
        const held = await lost.hold(name, terms);
        await world.vanish(lost, held);
        await next.takesOver(next.ask(name, terms), world.takeoverMs(held));
      },
    },
    {
      promise: "never follows a release",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const held = await one.hold(name, { lockDelayMs: 60_000 });
        await one.gives(held);
        assert.equal((await two.inspect(name)).lockDelayMs, 0);
        await two.hold(name);
      },
    },
    {
      promise: "keeps the queue waiting as well, and then the oldest gets in",
      excuse: anyOf(noQueue, noTtl),
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, first] = await pair(world);
        const second = await world.party();
        const terms = { ttlMs: world.shortMs, lockDelayMs: world.shortMs };
        const held = await lost.hold(name, terms);
        // An offer lasts as long as the ttl that was asked for, 3 s at most: a stall must not hand it to the second.
        const { lockDelayMs } = terms;
        const one = await first.queue(name, { lockDelayMs });
        const two = await second.queue(name, { lockDelayMs });
        const end = world.clock.mono() + world.takeoverMs(held);
        for (;;) {
          const early = await second.attempt({ ...two, join: "kept" });
          assert.notEqual(early.kind, "granted", "the second came in before the first");
          const answer = await first.attempt({ ...one, join: "kept" });
          if (answer.kind === "granted") break;
          assert.ok(world.clock.mono() <= end, `expected to get in, got ${said(answer)}`);
          await world.wait(world.shortMs / 8);
        }
      },
    },
    {
      promise: "never follows a waiter that left",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name, { lockDelayMs: 60_000 });
        await holder.gives(held);
        await waiter.gives(waiting);
        await holder.hold(name);
      },
    },
  ],
};
