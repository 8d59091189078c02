import { AssertionError } from "node:assert/strict";
import { describe, expect, it } from "vitest";
import type { Driver } from "../../src/core/driver.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";
import { BROKEN_DRIVERS } from "./broken/index.ts";
import { CollectingRunner } from "./collecting-runner.ts";

async function brokenPromises(make: () => Driver, only?: string): Promise<string[]> {
  const runner = new CollectingRunner();
  describeDriverContract(runner, {
    name: "broken",
    declares: memoryDriver(),
    time: "fake",
    open: async () => ({ driver: make(), close: async () => undefined }),
  });
  // A promise that is broken fails an assertion; any other error would be a mistake of the test.
  return (await runner.failures(only))
    .filter(({ error }) => error instanceof AssertionError)
    .map(({ test }) => test);
}

describe("the driver contract rejects a driver whose fault is", () => {
  for (const broken of BROKEN_DRIVERS) {
    const { fault, caughtBy } = broken;
    it(`${fault} (${caughtBy})`, async () => {
      const restore = broken.sabotage?.();
      try {
        expect(await brokenPromises(() => broken.make(), caughtBy)).toContain(caughtBy);
      } finally {
        restore?.();
      }
    });
  }
});

it("the driver contract accepts the driver that the broken ones are made of", async () => {
  expect(await brokenPromises(memoryDriver)).toEqual([]);
});
