import { AssertionError } from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import {
  type ContractRunner,
  type DriverFixture,
  describeFaultContract,
  type OpenedDriver,
} from "../../src/testing/index.ts";
import type { BrokenDriver } from "./broken/broken-driver.ts";
import { FAULTY_CORES, OBEDIENT_STORE } from "./broken-faults/cores.ts";
import { FAULTY_DRIVERS } from "./broken-faults/drivers.ts";
import { CollectingRunner } from "./collecting-runner.ts";

const close = async (): Promise<void> => undefined;

function fixtureOf(broken: BrokenDriver): DriverFixture {
  const declares = broken.make();
  return {
    name: "broken",
    declares,
    time: "fake",
    open: async (): Promise<OpenedDriver> => ({
      driver: broken.make(),
      close,
      endSession: close,
    }),
  };
}

async function brokenPromises(broken: BrokenDriver, only?: string): Promise<string[]> {
  const runner = new CollectingRunner();
  describeFaultContract(runner satisfies ContractRunner, fixtureOf(broken));
  // A promise that is broken fails an assertion; any other error would be a mistake of the test.
  return (await runner.failures(only))
    .filter(({ error }) => error instanceof AssertionError)
    .map(({ test }) => test);
}

describe("the fault contract rejects", () => {
  for (const broken of [...FAULTY_DRIVERS, ...FAULTY_CORES]) {
    const { fault, caughtBy } = broken;
    it(`${fault} (${caughtBy})`, async () => {
      const restore = broken.sabotage?.();
      try {
        expect(await brokenPromises(broken, caughtBy)).toContain(caughtBy);
      } finally {
        restore?.();
      }
    });
  }
});

it("the fault contract holds on a store that obeys late packets, by the lock manager alone", async () => {
  const restore = OBEDIENT_STORE.sabotage?.();
  try {
    expect(await brokenPromises(OBEDIENT_STORE)).toEqual([]);
  } finally {
    restore?.();
  }
});

it("the fault contract has a planted fault in every module that has promises of its own", () => {
  const runner = new CollectingRunner();
  const names: string[] = [];
  const modules = new Map<string, string[]>();
  let module = "";
  describeFaultContract(
    {
      describe(name, body) {
        module = name;
        body();
      },
      it(name, body) {
        runner.it(name, body);
        names.push(name);
        modules.set(module, [...(modules.get(module) ?? []), name]);
      },
    },
    fixtureOf({ fault: "", caughtBy: "", make: memoryDriver }),
  );
  const caught = new Set([...FAULTY_DRIVERS, ...FAULTY_CORES].map(({ caughtBy }) => caughtBy));
  for (const [name, promises] of modules)
    if (!promises.every((promise) => promise.startsWith("does not apply")))
      expect(
        promises.filter((promise) => caught.has(promise)),
        name,
      ).not.toEqual([]);
  expect(modules.size).toBeGreaterThan(10);
});
