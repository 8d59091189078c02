import assert from "node:assert/strict";
import type { ContractModule } from "../fixture.ts";
import { pair, type World } from "../world.ts";

/** Names that a careless encoding would take for one another. */
const ALIKE = ["a", "A", "a/b", "a%2Fb", "a%2fb", "a:b", "a b", "a+b", "ä", "{a}", "*", "🔒"];
const LONGEST = "n".repeat(512);

/** One holder at a time. */
export const exclusive: ContractModule = {
  name: "exclusive",
  excuse: ({ declares }) =>
    declares.modes.includes("exclusive") ? null : "there is no mode exclusive",
  promises: [
    {
      promise: "grants a free name to exactly one holder, however many ask at once",
      async run(world: World): Promise<void> {
        const name = world.name();
        const parties = await world.parties(5);
        const asks = parties.flatMap((party) => [
          { party, ask: party.ask(name) },
          { party, ask: party.ask(name) },
        ]);
        const answers = await Promise.all(asks.map(async ({ party, ask }) => party.attempt(ask)));
        const granted = answers.filter(({ kind }) => kind === "granted").length;
        // Stores with a quorum may split their votes: nobody wins, but never two do.
        assert.ok(granted <= 1, `${granted} were granted at once`);
        const late = await world.party();
        if (granted === 0) await late.takesOver(late.ask(name), world.lagMs);
        await late.busy(late.ask(name));
      },
    },
    {
      promise: "tells whoever finds it busy who has it, and when to ask again",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        await holder.hold(name, { holder: "the holder" });
        const busy = await other.busy(other.ask(name));
        assert.ok(busy.holder === null || busy.holder === "the holder", String(busy.holder));
        assert.equal(busy.queued, false);
        assert.equal(busy.blockedBy, "lease");
        assert.ok(busy.askAgainMs > 0, `askAgainMs is ${busy.askAgainMs}`);
      },
    },
    {
      promise: "a repeated ask is the same grant",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        const { got, ...ask } = await holder.hold(name);
        for (const join of ["no", "yes", "kept"] as const)
          assert.deepEqual(await holder.granted({ ...ask, join }), got);
        await holder.gives(ask);
        await other.hold(name);
      },
    },
    {
      promise: "keeps at least the ttl that was asked for",
      async run(world: World): Promise<void> {
        const party = await world.party();
        const { got } = await party.hold(world.name());
        assert.ok(got.ttlMs >= world.longMs, `${got.ttlMs} ms`);
      },
    },
    {
      promise: "a refused ask that does not join leaves nothing behind",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, refused] = await pair(world);
        const third = await world.party();
        const held = await holder.hold(name);
        for (let i = 0; i < 3; i += 1) await refused.busy(refused.ask(name));
        assert.deepEqual((await third.inspect(name)).waiters, []);
        await holder.gives(held);
        await third.hold(name);
      },
    },
    {
      promise: "keeps names apart that look alike, up to 512 bytes",
      async run(world: World): Promise<void> {
        const party = await world.party();
        const names = [...ALIKE, LONGEST, `${LONGEST.slice(1)}m`];
        const held = [];
        for (const name of names) held.push(await party.hold(name));
        for (const ask of held) await party.gives(ask);
      },
    },
    {
      promise: "carries 5 KiB about the holder, whatever characters it has",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const holder = `"'\\|,;{}\n\t%s $1 ${"é".repeat(2500)}`;
        await party.hold(name, { holder });
        assert.deepEqual(
          (await party.inspect(name)).holders.map((one) => one.holder),
          [holder],
        );
      },
    },
  ],
};
