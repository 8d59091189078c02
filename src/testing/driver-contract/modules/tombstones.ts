import assert from "node:assert/strict";
import { type ContractModule, noQueue } from "../fixture.ts";
import { pair, type World } from "../world.ts";

const LATE = { refuseLateMs: 60_000 } as const;

/** A late packet must not grant what was given up already. */
export const tombstones: ContractModule = {
  name: "tombstones",
  excuse: () => null,
  promises: [
    {
      promise: "an ask that arrives after its release is refused and leaves nothing behind",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const held = await one.hold(name);
        await one.gives({ ...held, ...LATE });
        for (const join of ["no", "yes", "kept"] as const)
          assert.equal((await one.attempt({ ...held, join })).kind, "vanished");
        const record = await two.inspect(name);
        assert.deepEqual([record.holders, record.waiters], [[], []]);
        await two.hold(name);
      },
    },
    {
      promise: "an ask that was overtaken by its own release is refused",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const late = one.ask(name);
        await one.release({ ...late, ...LATE });
        assert.equal((await one.attempt(late)).kind, "vanished");
        await two.hold(name);
      },
    },
    {
      promise: "a refused ask does not disturb the holder or the queue",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const late = one.ask(name, { join: "yes" });
        await one.release({ ...late, ...LATE });
        const held = await two.hold(name);
        assert.equal((await one.attempt(late)).kind, "vanished");
        assert.deepEqual((await two.inspect(name)).waiters, []);
        await two.gives(held);
        await two.hold(name);
      },
    },
    {
      promise: "other grant ids of the same name are not refused",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const held = await party.hold(name);
        await party.gives({ ...held, ...LATE });
        await party.hold(name);
      },
    },
    {
      promise: "an entry that was given up is not queued again by a late ask",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name);
        await waiter.gives({ ...waiting, ...LATE });
        assert.equal((await waiter.attempt({ ...waiting, join: "yes" })).kind, "vanished");
        await holder.gives(held);
        await holder.hold(name);
      },
    },
  ],
};
