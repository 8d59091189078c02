import assert from "node:assert/strict";
import { GuardScopeError, StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { id, RESOURCE, refused, type World } from "../world.ts";

const promises: readonly GuardPromise[] = [
  {
    promise: "refuses a claim from another scope with GuardScopeError, whatever its token",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      for (const token of [1n, 33n, 34n, 2n ** 60n]) {
        const foreign = world.holder(token, id());
        const error = await refused(GuardScopeError, async () => world.claim(foreign));
        assert.ok(!(error instanceof StaleTokenError), "it must never look stale");
        assert.equal(error.resource, RESOURCE);
        await refused(GuardScopeError, async () =>
          world.guard.run(world.db, RESOURCE, foreign, () => null),
        );
      }
      await world.verify(holder);
    },
  },
  {
    promise: "refuses a verify from another scope with GuardScopeError, even with the stored pair",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      await refused(GuardScopeError, async () => world.verify({ ...holder, scope: id() }));
      await refused(GuardScopeError, async () => world.verify(world.holder(34n, id())));
    },
  },
  {
    promise: "lets each resource have a scope of its own, but no list across them",
    async run(world: World): Promise<void> {
      const [here, there] = [world.holder(33n), world.holder(2n, id())];
      await world.claim(here, "a");
      await world.claim(there, "b");
      await world.verify(here, "a");
      await world.verify(there, "b");
      await refused(GuardScopeError, async () => world.claim(world.holder(34n), ["a", "b"]));
      await world.verify(here, "a");
    },
  },
];

/** Tokens of another lock, namespace or backend. */
export const scopes: GuardContractModule = { name: "scopes", promises };
