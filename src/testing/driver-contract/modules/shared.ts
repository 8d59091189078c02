import assert from "node:assert/strict";
import { anyOf, type ContractModule, nobodyCounts, noQueue, noTokens, noTtl } from "../fixture.ts";
import { pair, tokensOf, type World } from "../world.ts";

const READ = { mode: "shared" } as const;

/** Many readers or one writer. */
export const shared: ContractModule = {
  name: "shared",
  excuse: ({ declares }) => (declares.modes.includes("shared") ? null : "there is no mode shared"),
  promises: [
    {
      promise: "lets several readers in at once",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        await one.hold(name, READ);
        await two.hold(name, READ);
        await two.hold(name, READ);
        const record = await one.inspect(name);
        assert.deepEqual([record.mode, record.holders.length], ["shared", 3]);
      },
    },
    {
      promise: "a writer keeps readers out, and comes in only after the last reader left",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const writer = await one.hold(name);
        await two.busy(two.ask(name, READ));
        await one.gives(writer);
        const readers = [await one.hold(name, READ), await two.hold(name, READ)] as const;
        await two.busy(two.ask(name));
        await one.gives(readers[0]);
        await two.busy(two.ask(name));
        await two.gives(readers[1]);
        await two.hold(name);
      },
    },
    {
      promise: "a reader that leaves twice takes nobody else with it",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const first = await one.hold(name, READ);
        await two.hold(name, READ);
        await one.gives(first);
        await one.release(first);
        await one.busy(one.ask(name));
      },
    },
    {
      promise: "a repeated ask is the same reader",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const { got, ...reader } = await one.hold(name, READ);
        assert.deepEqual(await one.granted(reader), got);
        assert.equal((await two.inspect(name)).holders.length, 1);
        await one.gives(reader);
        await two.hold(name);
      },
    },
    {
      promise: "each reader's lease ends by itself",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [lost, kept] = await pair(world);
          const terms = { ...READ, ttlMs: world.shortMs };
          await lost.hold(name, terms);
          await world.wait(world.shortMs * 0.6);
          valid(world.shortMs);
          const reader = await kept.hold(name, terms);
          await world.wait(world.shortMs * 0.6);
          await lost.busy(lost.ask(name));
          await kept.gives(reader);
          await lost.takesOver(lost.ask(name), world.lagMs);
        });
      },
    },
    {
      promise: "a writer gets in after readers vanished",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, writer] = await pair(world);
        const held = await lost.hold(name, { ...READ, ttlMs: world.shortMs });
        await world.vanish(lost, held);
        await writer.takesOver(writer.ask(name, { ttlMs: world.shortMs }));
      },
    },
    {
      promise: "a reader's token lies between those of the writers before and after",
      excuse: noTokens,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        const before = await one.hold(name);
        await one.gives(before);
        const readers = [await one.hold(name, READ), await two.hold(name, READ)] as const;
        await one.gives(readers[0]);
        await two.gives(readers[1]);
        const after = await two.hold(name);
        for (const reader of readers) {
          assert.ok(tokensOf(reader.got).first > tokensOf(before.got).last);
          assert.ok(tokensOf(reader.got).last < tokensOf(after.got).first);
        }
      },
    },
    {
      promise: "a reader does not overtake a writer that queues, though readers are in",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [reader, writer] = await pair(world);
        const late = await world.party();
        const first = await reader.hold(name, READ);
        const waiting = await writer.queue(name);
        await late.busy(late.ask(name, READ));
        const second = await late.queue(name, READ);
        await reader.gives(first);
        await late.busy({ ...second, join: "kept" });
        await writer.granted({ ...waiting, join: "kept" });
        await writer.gives(waiting);
        await late.granted({ ...second, join: "kept" });
      },
    },
    {
      promise: "readers that queue one behind the other come in together",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [writer, last] = await pair(world);
        const readers = await world.parties(3);
        const held = await writer.hold(name);
        const waiting = [];
        for (const party of readers) waiting.push({ party, ask: await party.queue(name, READ) });
        const behind = await last.queue(name);
        await writer.gives(held);
        for (const { party, ask } of waiting.reverse())
          await party.granted({ ...ask, join: "kept" });
        await last.busy({ ...behind, join: "kept" });
        for (const { party, ask } of waiting) await party.gives(ask);
        await last.granted({ ...behind, join: "kept" });
      },
    },
    {
      promise: "readers get in again after the writer that queued before them died",
      excuse: anyOf(noQueue, noTtl),
      async run(world: World): Promise<void> {
        const name = world.name();
        const [reader, dead] = await pair(world);
        const held = await reader.hold(name, READ);
        const terms = { ttlMs: world.shortMs };
        await dead.queue(name, terms);
        const waiting = await reader.queue(name, { ...READ, ...terms });
        await reader.gives(held);
        await reader.takesOver({ ...waiting, join: "kept" }, world.takeoverMs(waiting));
      },
    },
  ],
};
