import assert from "node:assert/strict";
import { compareNames } from "../../../core/lock-name.ts";
import { type ContractModule, nobodyCounts, noQueue } from "../fixture.ts";
import { pair, type World } from "../world.ts";

const NAMES = [
  "jobs/b",
  "jobs/a",
  "jobs/a b",
  "jobs/A",
  "jobs/é",
  "jobs/~",
  "jobs/100%",
  "jobs/10",
];

/** What people are shown. */
export const records: ContractModule = {
  name: "inspect and list",
  excuse: () => null,
  promises: [
    {
      promise: "shows a free name as free",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const record = await party.inspect(name);
        assert.equal(record.name, name);
        assert.deepEqual([record.holders, record.waiters, record.lockDelayMs], [[], [], 0]);
      },
    },
    {
      promise: "shows who holds a name, since when and for how long",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [party, reader] = await pair(world);
        const before = world.clock.wall();
        const { grantId } = await party.hold(name, { holder: "somebody" });
        const record = await reader.inspect(name);
        const [holder] = record.holders;
        assert.deepEqual([record.mode, record.permits, record.holders.length], ["exclusive", 1, 1]);
        assert.deepEqual([holder?.grantId, holder?.holder], [grantId, "somebody"]);
        const { remainingMs = null, sinceMs = null } = holder ?? {};
        const { stepMs } = world.fixture.declares.ttl;
        if (remainingMs !== null)
          assert.ok(remainingMs > 0 && remainingMs <= world.longMs + stepMs, `${remainingMs} ms`);
        // Another host's clock may differ by some seconds; a wrong unit differs by far more.
        if (sinceMs !== null) assert.ok(Math.abs(sinceMs - before) < 60_000, `since ${sinceMs}`);
      },
    },
    {
      promise: "does not show a holder whose lease is over",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, reader] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        assert.deepEqual((await reader.inspect(name)).holders, []);
        assert.deepEqual((await reader.list()).names, []);
      },
    },
    {
      promise:
        "lists the names that are held, sorted by their encoded bytes, and only those asked for",
      async run(world: World): Promise<void> {
        const party = await world.party();
        const held = [];
        for (const name of [...NAMES, "job", "zebra"]) held.push(await party.hold(name));
        const sorted = [...NAMES].sort(compareNames);
        assert.deepEqual((await party.list("jobs/")).names, sorted);
        assert.deepEqual((await party.list("jobs/1")).names, ["jobs/10", "jobs/100%"]);
        assert.deepEqual((await party.list("nothing")).names, []);
        for (const ask of held) await party.gives(ask);
        assert.deepEqual((await party.list()).names, []);
      },
    },
    {
      promise: "lists in pages, without gaps and without repeats",
      async run(world: World): Promise<void> {
        const party = await world.party();
        for (const name of NAMES) await party.hold(name);
        const pages = [];
        let cursor: string | undefined;
        do {
          const page = await party.list("jobs/", 3, cursor);
          assert.ok(page.names.length <= 3);
          pages.push(...page.names);
          cursor = page.cursor;
        } while (cursor !== undefined && pages.length <= NAMES.length);
        assert.deepEqual(pages, [...NAMES].sort(compareNames));
      },
    },
    {
      promise: "lists a name that is waited for",
      excuse: noQueue,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const held = await holder.hold(name);
        await waiter.queue(name);
        await holder.gives(held);
        assert.deepEqual((await holder.list()).names, [name]);
      },
    },
  ],
};
