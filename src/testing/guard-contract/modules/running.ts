import assert from "node:assert/strict";
import { InvalidArgumentError, StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { after, RESOURCE, refused, type World } from "../world.ts";

const promises: readonly GuardPromise[] = [
  {
    promise: "resolves to the body's value, with its writes and its claim in place",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      const value = await world.guard.run(world.db, RESOURCE, holder, (tx): unknown =>
        after(world.writeIn(tx, RESOURCE, "written"), (): unknown => 42),
      );
      assert.equal(value, 42);
      assert.equal(await world.value(), "written");
      await world.verify(holder);
    },
  },
  {
    promise: "shows the body its own writes and the newest state",
    async run(world: World): Promise<void> {
      await world.transaction((tx): unknown => world.writeIn(tx, RESOURCE, "1"));
      const seen = await world.guard.run(world.db, RESOURCE, world.holder(33n), (tx): unknown =>
        after(world.readIn(tx), (before): unknown =>
          after(world.writeIn(tx, RESOURCE, "2"), (): unknown =>
            after(world.readIn(tx), (now): unknown => [before, now]),
          ),
        ),
      );
      assert.deepEqual(seen, ["1", "2"]);
    },
  },
  {
    promise: "rolls back when the body throws, and rejects with that very error",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.guard.run(world.db, RESOURCE, holder, (tx): unknown =>
        world.writeIn(tx, RESOURCE, "kept"),
      );
      const problem = new Error("the body's own problem");
      await assert.rejects(
        world.guard.run(world.db, RESOURCE, holder, (tx): unknown =>
          after(world.writeIn(tx, RESOURCE, "half done"), (): unknown => {
            throw problem;
          }),
        ),
        (error) => error === problem,
      );
      assert.equal(await world.value(), "kept");
      await world.write(holder, "and goes on");
      assert.equal(await world.value(), "and goes on");
    },
  },
  {
    promise: "does not start the body of a refused claim",
    async run(world: World): Promise<void> {
      await world.claim(world.holder(34n));
      let ran = false;
      await refused(StaleTokenError, async () =>
        world.guard.run(world.db, RESOURCE, world.holder(33n), () => {
          ran = true;
        }),
      );
      assert.equal(ran, false);
    },
  },
  {
    promise: "verifies its own claim inside the body",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.guard.run(world.db, RESOURCE, holder, (tx): unknown =>
        world.guard.verify(tx, RESOURCE, holder),
      );
      await refused(StaleTokenError, async () =>
        world.guard.run(world.db, RESOURCE, holder, (tx): unknown =>
          world.guard.verify(tx, RESOURCE, world.holder(34n)),
        ),
      );
      await world.verify(holder);
    },
  },
  {
    promise: "refuses a body that returns a promise, and rolls it back",
    excuse: ({ bodies }) => (bodies === "sync" ? null : "bodies are asynchronous"),
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      await world.guard.run(world.db, RESOURCE, holder, (tx): unknown =>
        world.writeIn(tx, RESOURCE, "kept"),
      );
      const bodies: ((tx: unknown) => unknown)[] = [
        async (tx) => world.writeIn(tx, RESOURCE, "async"),
        (tx): unknown => {
          void world.writeIn(tx, RESOURCE, "promise");
          return Promise.resolve();
        },
        (tx): unknown => {
          void world.writeIn(tx, RESOURCE, "rejected");
          return Promise.reject(new Error("nobody awaits this"));
        },
      ];
      for (const body of bodies)
        await refused(InvalidArgumentError, async () =>
          world.guard.run(world.db, RESOURCE, holder, body),
        );
      assert.equal(await world.value(), "kept");
      await world.write(holder, "and goes on");
    },
  },
];

/** Claim, body and commit in one. */
export const running: GuardContractModule = { name: "run", promises };
