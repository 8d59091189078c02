import assert from "node:assert/strict";
import { InvalidArgumentError, LeaseLostError } from "../../../core/errors.ts";
import type { Credential, Presented } from "../../../core/guard.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { RESOURCE, refused, type World } from "../world.ts";

const NEW_KEY = { kid: "2026", secret: "a secret of at least 16 bytes" };
const OLD_KEY = { kid: "2025", secret: "the secret that was used before" };

/** Every way to use a credential refuses this one, and the resource stays unclaimed. */
async function refusedEverywhere(world: World, credential: unknown): Promise<void> {
  const bad = credential as Credential;
  let ran = false;
  await refused(InvalidArgumentError, async () => world.claim(bad));
  await refused(InvalidArgumentError, async () => world.verify(bad));
  await refused(InvalidArgumentError, async () =>
    world.guard.run(world.db, RESOURCE, bad, () => {
      ran = true;
    }),
  );
  assert.equal(ran, false, "the body ran");
  await world.claim(world.holder(1n), RESOURCE);
}

const promises: readonly GuardPromise[] = [
  {
    promise: "takes an exclusive lease, its sequencer, and a vouched pair as the same holder",
    async run(world: World): Promise<void> {
      const lease = world.lease(33n);
      const { token, grantId, scope } = lease;
      const pair: Presented = { token, grantId, scope, trust: true };
      await world.claim(lease);
      await world.verify(world.sequencer(pair));
      await world.verify(pair);
    },
  },
  ...(["shared", "permits"] as const).map((mode) => ({
    promise: `refuses a lease in mode "${mode}"`,
    run: async (world: World): Promise<void> =>
      refusedEverywhere(world, world.lease(33n, { mode })),
  })),
  {
    promise: "refuses a lease without a token",
    run: async (world: World): Promise<void> =>
      refusedEverywhere(world, world.lease(33n, { token: undefined })),
  },
  {
    promise: "refuses the sequencer of a shared lease",
    run: async (world: World): Promise<void> =>
      refusedEverywhere(world, world.sequencer(world.holder(33n), undefined, "shared")),
  },
  {
    promise: "refuses a bare pair that nobody vouches for",
    async run(world: World): Promise<void> {
      const { token, grantId, scope } = world.holder(33n);
      await refusedEverywhere(world, { token, grantId, scope });
      const vague = { token, grantId, scope, trust: "yes" } as unknown as Credential;
      await refused(InvalidArgumentError, async () => world.claim(vague));
    },
  },
  {
    promise: "refuses what is no credential at all",
    async run(world: World): Promise<void> {
      const holder = world.holder(33n);
      for (const nonsense of [
        null,
        undefined,
        33n,
        "",
        "rf1...",
        {},
        { ...holder, grantId: "short" },
        { ...holder, scope: undefined },
      ])
        await refused(InvalidArgumentError, async () => world.claim(nonsense as Credential));
      await world.claim(world.holder(1n));
    },
  },
  {
    promise:
      "with keys, takes signed sequencers of every key and refuses unsigned and unknown ones",
    async run(world: World): Promise<void> {
      const guard = world.guardWith({ keys: [NEW_KEY, OLD_KEY] });
      const holder = world.holder(33n);
      const forged = { kid: NEW_KEY.kid, secret: "somebody else's secret, just as long" };
      const unknown = { kid: "other", secret: NEW_KEY.secret };
      for (const bad of [undefined, forged, unknown])
        await refused(InvalidArgumentError, async () =>
          guard.claim(world.db, RESOURCE, world.sequencer(holder, bad)),
        );
      await guard.claim(world.db, RESOURCE, world.sequencer(holder, OLD_KEY));
      await world.transaction((tx): unknown =>
        guard.verify(tx, RESOURCE, world.sequencer(holder, NEW_KEY)),
      );
    },
  },
  {
    promise: "without keys, refuses a signed sequencer, which it could not check",
    run: async (world: World): Promise<void> =>
      refusedEverywhere(world, world.sequencer(world.holder(33n), NEW_KEY)),
  },
  {
    promise: "asks a lease's own deadline first: one that is over reaches the resource no more",
    async run(world: World): Promise<void> {
      let lost = false;
      const lease = world.lease(33n, { lost: () => lost });
      await world.claim(lease);
      await world.write(lease, "in time");
      lost = true;
      let ran = false;
      await refused(LeaseLostError, async () => world.claim(lease));
      await refused(LeaseLostError, async () => world.write(lease, "too late"));
      await refused(LeaseLostError, async () =>
        world.guard.run(world.db, RESOURCE, lease, () => {
          ran = true;
        }),
      );
      assert.equal(ran, false, "the body ran");
      assert.equal(await world.value(), "in time");
    },
  },
  {
    promise: "claims nothing for a lease that is over",
    async run(world: World): Promise<void> {
      await refused(LeaseLostError, async () =>
        world.claim(world.lease(33n, { lost: () => true })),
      );
      await world.claim(world.holder(1n));
    },
  },
];

/** What may claim, and how it is shown. */
export const credentials: GuardContractModule = { name: "credentials", promises };
