import assert from "node:assert/strict";
import { MAX_TOKEN } from "../../../core/fencing-token.ts";
import { anyOf, type ContractModule, noCounter, noTokens, realTime } from "../fixture.ts";
import { pair, tokensOf, type World } from "../world.ts";

const ROUNDS = 20;
const OTHER_NAMES = 200;
const BATCH = 20;

/** Fencing tokens rise with every grant of a name. */
export const tokens: ContractModule = {
  name: "tokens",
  excuse: noTokens,
  promises: [
    {
      promise: "tokens rise with every grant, whoever gets it",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = await pair(world);
        let last = 0n;
        for (let i = 0; i < ROUNDS; i += 1) {
          const party = i % 2 === 0 ? one : two;
          const held = await party.hold(name);
          const { first } = tokensOf(held.got);
          assert.ok(first > last, `${first} came after ${last}`);
          assert.ok(first <= MAX_TOKEN, `${first} is out of range`);
          last = first;
          await party.gives(held);
        }
      },
    },
    {
      promise: "tokens rise when a holder vanished",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, next] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        await world.vanish(lost, held);
        const got = await next.takesOver(next.ask(name, { ttlMs: world.shortMs }));
        assert.ok(tokensOf(got).first > tokensOf(held.got).last);
      },
    },
    {
      promise: "tokens rise though the name was idle while many others came and went",
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const before = await party.hold(name);
        await party.gives(before);
        for (let i = 0; i < OTHER_NAMES; i += BATCH)
          await Promise.all(
            Array.from({ length: BATCH }, async () => party.gives(await party.hold(world.name()))),
          );
        const after = await party.hold(name);
        assert.ok(tokensOf(after.got).first > tokensOf(before.got).last);
      },
    },
    {
      promise: "tokens rise though the wall clock was set back",
      excuse: realTime,
      async run(world: World): Promise<void> {
        const [name, other] = [world.name(), world.name()];
        const party = await world.party();
        const before = await party.hold(name);
        await party.gives(before);
        world.fake?.step(-24 * 3_600_000);
        await party.gives(await party.hold(other));
        const after = await party.hold(name);
        assert.ok(tokensOf(after.got).first > tokensOf(before.got).last);
      },
    },
    {
      promise: "a token exceeds `above`, and so do those after it",
      excuse: noCounter,
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const before = await party.hold(name);
        await party.gives(before);
        const above = tokensOf(before.got).last + 10n ** 15n;
        const repaired = await party.hold(name, { above });
        assert.ok(tokensOf(repaired.got).first > above);
        await party.gives(repaired);
        const after = await party.hold(name);
        assert.ok(tokensOf(after.got).first > tokensOf(repaired.got).last);
      },
    },
    {
      promise: "a release can raise the counter in its own step",
      excuse: noCounter,
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        const held = await party.hold(name);
        const raiseTo = tokensOf(held.got).last + 10n ** 15n;
        await party.gives({ ...held, raiseTo });
        assert.ok(tokensOf((await party.hold(name)).got).first > raiseTo);
      },
    },
    {
      promise: "a release by somebody who does not hold it raises nothing",
      excuse: noCounter,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, other] = await pair(world);
        const held = await holder.hold(name);
        const raiseTo = tokensOf(held.got).last + 10n ** 18n;
        await other.release({ ...other.ask(name), raiseTo });
        await holder.gives(held);
        assert.ok(tokensOf((await other.hold(name)).got).first < raiseTo);
      },
    },
    {
      promise: "refuses to mint a token that is out of range, and the name stays free",
      excuse: anyOf(noCounter, ({ declares }) =>
        declares.clock === "observer" ? 'clock is "observer"' : null,
      ),
      async run(world: World): Promise<void> {
        const name = world.name();
        const party = await world.party();
        await assert.rejects(party.attempt(party.ask(name, { above: MAX_TOKEN })));
        assert.deepEqual((await party.inspect(name)).holders, []);
      },
    },
  ],
};
