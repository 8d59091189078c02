import assert from "node:assert/strict";
import { StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { RESOURCE, refused, type World } from "../world.ts";

const promises: readonly GuardPromise[] = [
  {
    promise: "accepts a write while the claim stands, and the next one too",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await world.write(holder, "one");
      await world.write(holder, "two");
      assert.equal(await world.value(), "two");
    },
  },
  {
    promise: "refuses the write of a holder whose claim was replaced, and changes nothing",
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old);
      await world.write(old, "old");
      await world.claim(next);
      const error = await refused(StaleTokenError, async () => world.write(old, "late"));
      assert.equal(error.step, "verify");
      assert.equal(error.resource, RESOURCE);
      assert.equal(error.presented, 33n);
      assert.equal(error.highest, 34n);
      assert.equal(await world.value(), "old");
    },
  },
  {
    promise: "refuses a holder with a larger token that did not claim",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await refused(StaleTokenError, async () => world.write(world.holder(34n), "unclaimed"));
      await world.write(holder, "claimed");
      assert.equal(await world.value(), "claimed");
    },
  },
  {
    promise: "refuses everybody where nobody claimed",
    async run(world: World): Promise<void> {
      const error = await refused(StaleTokenError, async () => world.verify(world.holder(33n)));
      assert.equal(error.highest, null);
    },
  },
  {
    promise: "refuses the same token of another grant",
    async run(world: World): Promise<void> {
      await world.claim(world.holder(33n));
      await refused(StaleTokenError, async () => world.verify(world.holder(33n)));
    },
  },
  {
    promise: "refuses the same grant with another token",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await refused(StaleTokenError, async () => world.verify({ ...holder, token: 34n }));
      await refused(StaleTokenError, async () => world.verify({ ...holder, token: 32n }));
    },
  },
  {
    promise: "leaves the claim as it was, whatever it answered",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await refused(StaleTokenError, async () => world.verify(world.holder(99n)));
      await world.claim(world.holder(34n));
      await refused(StaleTokenError, async () => world.verify(holder));
      await refused(StaleTokenError, async () => world.claim(holder));
    },
  },
];

/** What a verify decides by itself. */
export const verifies: GuardContractModule = { name: "verifies", promises };
