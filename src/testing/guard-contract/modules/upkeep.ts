import assert from "node:assert/strict";
import { GuardScopeError, InvalidArgumentError, StaleTokenError } from "../../../core/errors.ts";
import { systemClock } from "../../../runtime/system-clock.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { id, RESOURCE, refused, type World } from "../world.ts";

const HOUR_MS = 3_600_000;
const soon = (): Date => new Date(systemClock.wall() + HOUR_MS);
const longAgo = (): Date => new Date(systemClock.wall() - HOUR_MS);

const promises: readonly GuardPromise[] = [
  {
    promise: "moves a resource to another scope, with a floor under its tokens",
    async run(world: World): Promise<void> {
      const to = id();
      const old = world.holder(1000n);
      await world.claim(old);
      await world.guard.adopt(world.db, RESOURCE, { from: world.scope, to, floor: 4n });
      await refused(GuardScopeError, async () => world.write(old, "late"));
      await refused(GuardScopeError, async () => world.claim(world.holder(2000n)));
      for (const token of [3n, 4n])
        await refused(StaleTokenError, async () => world.claim(world.holder(token, to)));
      const next = world.holder(5n, to);
      await world.claim(next);
      await world.write(next, "moved");
      assert.equal(await world.value(), "moved");
    },
  },
  {
    promise: "adopts once: again is without effect on the new holder",
    async run(world: World): Promise<void> {
      const adoption = { from: world.scope, to: id(), floor: 4n };
      await world.claim(world.holder(1000n));
      await world.guard.adopt(world.db, RESOURCE, adoption);
      const next = world.holder(5n, adoption.to);
      await world.claim(next);
      await world.guard.adopt(world.db, RESOURCE, adoption);
      await world.verify(next);
    },
  },
  {
    promise: "keeps what the left scope had reached, for the way back",
    async run(world: World): Promise<void> {
      const to = id();
      const old = world.holder(1000n);
      await world.claim(old);
      await world.guard.adopt(world.db, RESOURCE, { from: world.scope, to, floor: 0n });
      await world.claim(world.holder(5n, to));
      await world.guard.adopt(world.db, RESOURCE, { from: to, to: world.scope, floor: 0n });
      await refused(StaleTokenError, async () => world.claim(old));
      await refused(StaleTokenError, async () => world.claim(world.holder(1000n)));
      await world.claim(world.holder(1001n));
    },
  },
  {
    promise: "refuses to adopt from a scope that the resource does not have",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder);
      const wrong = { from: id(), to: id(), floor: 0n };
      await refused(GuardScopeError, async () => world.guard.adopt(world.db, RESOURCE, wrong));
      for (const impossible of [
        { from: world.scope, to: world.scope, floor: 0n },
        { from: world.scope, to: "short", floor: 0n },
        { from: world.scope, to: id(), floor: -1n },
        { from: world.scope, to: id(), floor: 2n ** 62n - 1n },
      ])
        await refused(InvalidArgumentError, async () =>
          world.guard.adopt(world.db, RESOURCE, impossible),
        );
      await world.verify(holder);
    },
  },
  {
    promise: "purges only what was last used before the given time",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder, ["a", "b"]);
      assert.equal(await world.guard.purge(world.db, longAgo()), 0);
      await world.verify(holder, ["a", "b"]);
      assert.equal(await world.guard.purge(world.db, soon()), 2);
      await refused(StaleTokenError, async () => world.verify(holder, "a"));
      await refused(InvalidArgumentError, async () =>
        world.guard.purge(world.db, new Date(Number.NaN)),
      );
    },
  },
  {
    promise: "keeps a floor under purged entries: no token that was used before passes again",
    async run(world: World): Promise<void> {
      const old = world.holder(33n);
      await world.claim(world.holder(20n), "other");
      await world.claim(old);
      await world.guard.purge(world.db, soon());
      const error = await refused(StaleTokenError, async () => world.claim(world.holder(33n)));
      assert.equal(error.highest, 33n);
      await refused(StaleTokenError, async () => world.claim(old));
      await refused(StaleTokenError, async () => world.claim(world.holder(21n), "other"));
      await world.claim(world.holder(34n), [RESOURCE, "other"]);
    },
  },
  {
    promise: "floors a scope at the highest of the purged tokens, and never lowers that",
    async run(world: World): Promise<void> {
      await world.claim(world.holder(33n), "m");
      await world.claim(world.holder(20n), "a");
      await world.claim(world.holder(25n), "z");
      const holder = world.holder(10n);
      await world.claim(holder, "used since");
      await world.pause(20);
      const before = new Date(systemClock.wall());
      await world.pause(20);
      await world.verify(holder, "used since");
      assert.equal(await world.guard.purge(world.db, before), 3);
      await world.verify(holder, "used since");
      assert.equal(await world.guard.purge(world.db, soon()), 1);
      for (const resource of ["a", "m", "z", "used since", "never seen"])
        await refused(StaleTokenError, async () => world.claim(world.holder(33n), resource));
      await world.claim(world.holder(34n), ["a", "m", "z"]);
    },
  },
  {
    promise: "keeps floors of different scopes apart",
    async run(world: World): Promise<void> {
      await world.claim(world.holder(33n), "a");
      await world.guard.purge(world.db, soon());
      await world.claim(world.holder(1n, id()), "a");
    },
  },
  {
    promise: "leaves entries that stay to themselves: only missing ones inherit the floor",
    async run(world: World): Promise<void> {
      await world.claim(world.holder(90n), "gone");
      await world.guard.purge(world.db, soon());
      const to = id();
      await world.guard.adopt(world.db, "kept", { from: to, to: world.scope, floor: 0n });
      await refused(StaleTokenError, async () => world.claim(world.holder(90n), "kept"));
      await world.claim(world.holder(91n), "kept");
    },
  },
];

/** Adoption by another scope, and purges. */
export const upkeep: GuardContractModule = { name: "upkeep", promises };
