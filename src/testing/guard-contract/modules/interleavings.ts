import assert from "node:assert/strict";
import { StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardFixture, GuardPromise } from "../fixture.ts";
import { after, RESOURCE, refused, type World } from "../world.ts";

const noWaitingBodies = ({ bodies }: GuardFixture): string | null =>
  bodies === "async" ? null : "bodies are synchronous: nothing happens meanwhile";
const noOpenTransactions = ({ has }: GuardFixture): string | null =>
  has.openTransactions ? null : "transactions cannot stay open while others act";

/** Long enough for a claim that nobody blocks; one that is blocked goes on waiting. */
const MEANWHILE_MS = 50;

const promises: readonly GuardPromise[] = [
  {
    promise: "refuses a late write after the successor's claim, before the successor's first write",
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old);
      await world.write(old, "v0");
      const [seenByOld] = [await world.value()];
      await world.claim(next);
      const seenByNext = await world.value();
      await refused(StaleTokenError, async () => world.write(old, `${seenByOld ?? ""}+old`));
      await world.write(next, `${seenByNext ?? ""}+next`);
      assert.equal(await world.value(), "v0+next");
    },
  },
  {
    promise: "refuses a late write after a successor's whole run",
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old);
      await world.guard.run(world.db, RESOURCE, next, (tx): unknown =>
        world.writeIn(tx, RESOURCE, "next"),
      );
      await refused(StaleTokenError, async () => world.write(old, "old"));
      await refused(StaleTokenError, async () =>
        world.guard.run(world.db, RESOURCE, old, (tx): unknown =>
          world.writeIn(tx, RESOURCE, "old"),
        ),
      );
      assert.equal(await world.value(), "next");
    },
  },
  {
    promise:
      "lets no claim pass between a verify and the end of its transaction, or fails that transaction",
    excuse: noOpenTransactions,
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old);
      await world.write(old, "v0");
      const open = await world.begin();
      await world.readIn(open.tx);
      await world.guard.verify(open.tx, RESOURCE, old);
      const successor = claimAndRead(world, next);
      await Promise.race([successor, world.pause(MEANWHILE_MS)]);
      const landed = await writeAndCommit(world, open, "old");
      assert.equal(await successor, landed ? "old" : "v0");
      await world.write(next, "next");
      assert.equal(await world.value(), "next");
    },
  },
  {
    promise: "lets no claim pass between the claim of a run and its end, or fails that run",
    excuse: noWaitingBodies,
    async run(world: World): Promise<void> {
      const [old, next] = [world.holder(33n), world.holder(34n)];
      await world.claim(old);
      await world.write(old, "v0");
      let successor: Promise<string | null> | undefined;
      const landed = await succeeds(
        world.guard.run(world.db, RESOURCE, old, async (tx) => {
          await world.readIn(tx);
          successor ??= claimAndRead(world, next);
          await Promise.race([successor, world.pause(MEANWHILE_MS)]);
          await world.writeIn(tx, RESOURCE, "old");
        }),
      );
      assert.equal(await successor, landed ? "old" : "v0");
      await world.write(next, "next");
      assert.equal(await world.value(), "next");
    },
  },
  {
    promise: "loses no update of twelve holders that all believe to hold the lock",
    async run(world: World): Promise<void> {
      const runs = Array.from({ length: 12 }, async (_, i) =>
        succeeds(
          world.guard.run(
            i % 2 === 0 ? world.db : world.other,
            RESOURCE,
            world.holder(BigInt(i) + 1n),
            (tx): unknown => increment(world, tx),
          ),
        ),
      );
      const accepted = (await Promise.all(runs)).filter(Boolean).length;
      assert.ok(accepted > 0, "nobody got through");
      assert.equal(await world.value(), accepted.toString());
    },
  },
];

/** What an old and a new holder see of each other, in the orders that lose updates elsewhere. */
export const interleavings: GuardContractModule = { name: "interleavings", promises };

function increment(world: World, tx: unknown): unknown {
  return after(world.readIn(tx), (value): unknown => {
    const next = (Number(value ?? "0") + 1).toString();
    if (world.fixture.bodies === "sync") return world.writeIn(tx, RESOURCE, next);
    return world.pause(2).then((): unknown => world.writeIn(tx, RESOURCE, next));
  });
}

async function claimAndRead(
  world: World,
  holder: Parameters<World["claim"]>[0],
): Promise<string | null> {
  await world.guard.claim(world.other, RESOURCE, holder);
  return world.value(RESOURCE, world.other);
}

async function writeAndCommit(
  world: World,
  open: Awaited<ReturnType<World["begin"]>>,
  value: string,
): Promise<boolean> {
  try {
    await world.writeIn(open.tx, RESOURCE, value);
  } catch {
    // A store may refuse here already: then the transaction is given up.
    await open.rollback();
    return false;
  }
  return succeeds(open.commit());
}

async function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  );
}
