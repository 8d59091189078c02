import assert from "node:assert/strict";
import { InvalidArgumentError, LeaseLostError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardFixture, GuardPromise } from "../fixture.ts";
import { id, refused, type World } from "../world.ts";

const KEY = "row";

const promises: readonly GuardPromise[] = [
  promise("claims a fresh row, and writes it only while the pair stands", async (world) => {
    const { rows } = world;
    const [old, next] = [world.holder(33n), world.holder(34n)];
    await rows.insert(KEY, "v0");
    assert.equal(await rows.update(KEY, "unclaimed", old, "predicate"), false);
    assert.equal(await rows.update(KEY, "old", old, "claimPredicate"), true);
    assert.equal(await rows.update(KEY, "old again", old, "predicate"), true);
    assert.equal(await rows.update(KEY, "next", next, "predicate"), false);
    assert.equal(await rows.update(KEY, "next", next, "claimPredicate"), true);
    assert.equal(await rows.update(KEY, "late", old, "predicate"), false);
    assert.equal(await rows.read(KEY), "next");
  }),
  promise(
    "lets a claiming update pass only when its token rises, or for the same grant",
    async (world) => {
      const { rows } = world;
      const holder = world.holder(33n);
      await rows.insert(KEY, "v0");
      assert.equal(await rows.update(KEY, "v1", holder, "claimPredicate"), true);
      assert.equal(await rows.update(KEY, "v2", holder, "claimPredicate"), true);
      for (const late of [world.holder(33n), world.holder(32n), world.holder(99n, id())])
        assert.equal(await rows.update(KEY, "late", late, "claimPredicate"), false);
      assert.equal(await rows.read(KEY), "v2");
      assert.equal(await rows.update(KEY, "v3", holder, "predicate"), true);
    },
  ),
  promise("compares token, grant and scope, all three", async (world) => {
    const { rows } = world;
    const holder = world.holder(33n);
    await rows.insert(KEY, "v0");
    await rows.update(KEY, "v1", holder, "claimPredicate");
    for (const other of [
      { ...holder, token: 34n },
      { ...holder, grantId: id() },
      { ...holder, scope: id() },
    ])
      assert.equal(await rows.update(KEY, "other", other, "predicate"), false);
    assert.equal(await rows.read(KEY), "v1");
  }),
  promise("tells tokens around 2^53 and at 2^62 - 1 apart", async (world) => {
    const { rows } = world;
    await rows.insert(KEY, "v0");
    for (const token of [
      2n ** 53n - 1n,
      2n ** 53n,
      2n ** 53n + 1n,
      2n ** 62n - 2n,
      2n ** 62n - 1n,
    ]) {
      const holder = world.holder(token);
      assert.equal(await rows.update(KEY, "v", holder, "claimPredicate"), true);
      assert.equal(
        await rows.update(KEY, "v", { ...holder, token: token - 1n }, "predicate"),
        false,
      );
      assert.equal(await rows.update(KEY, "v", world.holder(token - 1n), "claimPredicate"), false);
    }
  }),
  promise("refuses a lease that is over, and what is no credential", async (world) => {
    const { rows } = world;
    const over = world.lease(33n, { lost: () => true });
    await rows.insert(KEY, "v0");
    for (const condition of ["predicate", "claimPredicate"] as const) {
      await refused(LeaseLostError, async () => rows.update(KEY, "late", over, condition));
      await refused(InvalidArgumentError, async () =>
        rows.update(KEY, "shared", world.lease(33n, { mode: "shared" }), condition),
      );
    }
    assert.equal(await rows.read(KEY), "v0");
  }),
];

/** Rows that carry their own fence columns. */
export const fencedRows: GuardContractModule = {
  name: "rows with their own fence columns",
  promises,
};

function promise(text: string, run: (world: World) => Promise<void>): GuardPromise {
  const excuse = ({ has }: GuardFixture): string | null =>
    has.fencedRows ? null : "the guard makes no conditions for rows";
  return { promise: text, excuse, run };
}
