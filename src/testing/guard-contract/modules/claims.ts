import assert from "node:assert/strict";
import { StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { RESOURCE, refused, type World } from "../world.ts";

const promises: readonly GuardPromise[] = [
  {
    promise: "lets the first holder claim, whatever its token",
    async run(world: World): Promise<void> {
      const holder = world.holder(1n);
      await world.claim(holder);
      await world.verify(holder);
    },
  },
  {
    promise: "lets a larger token claim and refuses a smaller one, naming both",
    async run(world: World): Promise<void> {
      await world.claim(world.holder(33n));
      await world.claim(world.holder(40n));
      const error = await refused(StaleTokenError, async () => world.claim(world.holder(39n)));
      assert.equal(error.step, "claim");
      assert.equal(error.resource, RESOURCE);
      assert.equal(error.presented, 39n);
      assert.equal(error.highest, 40n);
    },
  },
  {
    promise: "lets the same grant claim again with its token",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await world.claim(holder);
      await world.verify(holder);
    },
  },
  {
    promise: "refuses the same token of another grant",
    async run(world: World): Promise<void> {
      const [first, second] = [world.holder(33n), world.holder(33n)];
      await world.claim(first);
      await refused(StaleTokenError, async () => world.claim(second));
      await world.verify(first);
      await refused(StaleTokenError, async () => world.verify(second));
    },
  },
  {
    promise: "never lets a grant back in after a larger token claimed",
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old);
      await world.claim(next);
      await refused(StaleTokenError, async () => world.claim(old));
      await refused(StaleTokenError, async () =>
        world.guard.run(world.db, RESOURCE, old, () => null),
      );
      await world.verify(next);
    },
  },
  {
    promise: "leaves the holder alone when a claim is refused",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await refused(StaleTokenError, async () => world.claim(world.holder(32n)));
      await refused(StaleTokenError, async () => world.claim(world.holder(33n)));
      await world.write(holder, "still mine");
      assert.equal(await world.value(), "still mine");
    },
  },
  {
    promise: "keeps claims of one resource apart from those of another",
    async run(world: World): Promise<void> {
      const [late, early] = [world.holder(90n), world.holder(5n)];
      await world.claim(late, "documents/8");
      await world.claim(early);
      await world.verify(early);
      await world.verify(late, "documents/8");
    },
  },
  {
    promise: "stores the newer claim when an older one comes at the same time, in 12 rounds",
    async run(world: World): Promise<void> {
      for (let round = 0n; round < 12n; round += 1n) {
        const older = world.holder(10n + 2n * round);
        const newer = world.holder(11n + 2n * round);
        const [, second] = await Promise.allSettled([
          world.guard.claim(world.db, RESOURCE, older),
          world.guard.claim(world.other, RESOURCE, newer),
        ]);
        assert.equal(
          second.status,
          "fulfilled",
          `round ${round.toString()}: ${JSON.stringify(second)}`,
        );
        await world.verify(newer);
        await refused(StaleTokenError, async () => world.verify(older));
      }
    },
  },
];

/** What a claim decides by itself. */
export const claims: GuardContractModule = { name: "claims", promises };
