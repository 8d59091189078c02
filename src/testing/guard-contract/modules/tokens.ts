import assert from "node:assert/strict";
import { InvalidArgumentError, StaleTokenError } from "../../../core/errors.ts";
import type { GuardContractModule, GuardPromise } from "../fixture.ts";
import { refused, type World } from "../world.ts";

const MAX = 2n ** 62n - 1n;

const promises: readonly GuardPromise[] = [
  {
    promise: "tells tokens around 2^53 apart",
    async run(world: World): Promise<void> {
      for (const token of [2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n]) {
        const holder = world.holder(token);
        await world.claim(holder);
        await world.verify(holder);
        await refused(StaleTokenError, async () => world.verify({ ...holder, token: token - 1n }));
        await refused(StaleTokenError, async () => world.verify({ ...holder, token: token + 1n }));
        const error = await refused(StaleTokenError, async () =>
          world.claim(world.holder(token - 1n)),
        );
        assert.equal(error.highest, token);
      }
    },
  },
  {
    promise: "takes the largest token, 2^62 - 1, and nothing after it",
    async run(world: World): Promise<void> {
      const [before, last] = [world.holder(MAX - 1n), world.holder(MAX)];
      await world.claim(before);
      await world.claim(last);
      await world.verify(last);
      await refused(StaleTokenError, async () => world.claim(before));
      const error = await refused(StaleTokenError, async () => world.claim(world.holder(MAX)));
      assert.equal(error.highest, MAX);
    },
  },
  {
    promise: "orders tokens by value, not by their digits",
    async run(world: World): Promise<void> {
      for (const token of [9n, 10n, 99n, 100n, 999n, 1000n, 10n ** 18n - 1n, 10n ** 18n])
        await world.claim(world.holder(token));
      for (const token of [9n, 99n, 999n, 10n ** 18n - 1n])
        await refused(StaleTokenError, async () => world.claim(world.holder(token)));
    },
  },
  {
    promise: "refuses tokens outside 1 ... 2^62 - 1 as input, so that none can poison a resource",
    async run(world: World): Promise<void> {
      for (const token of [0n, -1n, MAX + 1n, 2n ** 63n, 2n ** 64n + 5n])
        await refused(InvalidArgumentError, async () => world.claim(world.holder(token)));
      const number = { ...world.holder(1n), token: 34 as unknown as bigint };
      await refused(InvalidArgumentError, async () => world.claim(number));
      const holder = world.holder(1n);
      await world.claim(holder);
      await world.verify(holder);
    },
  },
];

/** Tokens at the edges of what numbers, strings and doubles can hold. */
export const tokens: GuardContractModule = { name: "tokens", promises };
