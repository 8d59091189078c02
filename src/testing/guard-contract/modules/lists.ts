import assert from "node:assert/strict";
import { InvalidArgumentError, StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { after, refused, type World } from "../world.ts";

const SET = ["accounts/1", "accounts/2", "accounts/3"];
const [FIRST = "", MIDDLE = "", LAST = ""] = SET;

const promises: readonly GuardPromise[] = [
  {
    promise: "claims all of a list or none of it",
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(40n)];
      await world.claim(old, SET);
      await world.claim(next, MIDDLE);
      const error = await refused(StaleTokenError, async () => world.claim(world.holder(35n), SET));
      assert.equal(error.resource, MIDDLE);
      await world.verify(old, FIRST);
      await world.verify(old, LAST);
      await world.verify(next, MIDDLE);
    },
  },
  {
    promise: "verifies every resource of a list",
    async run(world: World): Promise<void> {
      for (const taken of SET) {
        const [old, next] = [world.holder(33n), world.holder(34n, world.scope)];
        const set = SET.map((resource) => `${taken}:${resource}`);
        await world.claim(old, set);
        await world.verify(old, set);
        await world.claim(next, `${taken}:${taken}`);
        await refused(StaleTokenError, async () =>
          world.transaction((tx): unknown =>
            after(world.guard.verify(tx, set, old), (): unknown =>
              world.writeIn(tx, "sum", "late"),
            ),
          ),
        );
      }
      assert.equal(await world.value("sum"), null);
    },
  },
  {
    promise: "takes a list in any order, and a repeated resource once",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.claim(holder, [LAST, FIRST, LAST, MIDDLE]);
      await world.verify(holder, [MIDDLE, LAST, FIRST, FIRST]);
    },
  },
  {
    promise: "gives the whole set to the newer of two that claim it at once in opposite orders",
    async run(world: World): Promise<void> {
      for (let round = 0n; round < 6n; round += 1n) {
        const older = world.holder(10n + 2n * round);
        const newer = world.holder(11n + 2n * round);
        const [, second] = await Promise.allSettled([
          world.guard.claim(world.db, SET, older),
          world.guard.claim(world.other, [...SET].reverse(), newer),
        ]);
        assert.equal(second.status, "fulfilled");
        await world.verify(newer, SET);
        for (const resource of SET)
          await refused(StaleTokenError, async () => world.verify(older, resource));
      }
    },
  },
  {
    promise: "claims the whole set in a run, before its body",
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old, SET);
      await world.guard.run(world.db, SET, next, (tx): unknown => world.writeIn(tx, "sum", "next"));
      for (const resource of SET)
        await refused(StaleTokenError, async () => world.verify(old, resource));
      await world.verify(next, SET);
    },
  },
  {
    promise: "refuses an empty list and names that no resource can have",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      for (const impossible of [[], "", "a\u0000b", "x".repeat(513), ["fine", ""]])
        await refused(InvalidArgumentError, async () => world.claim(holder, impossible));
    },
  },
];

/** Several resources under one lock. */
export const lists: GuardContractModule = { name: "lists of resources", promises };
