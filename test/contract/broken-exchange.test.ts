import { AssertionError } from "node:assert/strict";
import { expect, it } from "vitest";
import type { Ask, Backend, Granted, Io } from "../../src/core/driver.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";
import { newPath } from "../fixtures/sqlite.ts";
import { CollectingRunner } from "./collecting-runner.ts";

type Exchange = NonNullable<Backend["exchange"]>;

/** Which of these promises break when `exchange` is replaced. */
async function brokenBy(
  promises: readonly string[],
  make: (inner: Backend, exchange: Exchange) => Exchange,
): Promise<string[]> {
  const runner = new CollectingRunner();
  describeDriverContract(runner, {
    name: "broken",
    declares: sqliteDriver("locks.db"),
    time: "fake",
    open: async () => {
      const driver = sqliteDriver(newPath());
      return {
        driver: {
          ...driver,
          open: async (context) => {
            const backend = await driver.open(context);
            const exchange = backend.exchange?.bind(backend);
            if (exchange === undefined) throw new Error("SQLite has an exchange");
            backend.exchange = make(backend, exchange);
            return backend;
          },
        },
        close: async () => undefined,
      };
    },
  });
  const broken: string[] = [];
  for (const promise of promises)
    for (const { test, error } of await runner.failures(promise))
      if (error instanceof AssertionError) broken.push(test);
  return broken;
}

it("the driver contract rejects an exchange that serves everybody who comes", async () => {
  const promises = [
    "a grant is exchanged once: a second taker finds it gone",
    "a lease that lapsed or was released is not exchanged",
    "those who wait are not overtaken by it, nor let in",
  ];
  const broken = await brokenBy(promises, (inner) => async (from, ask, io) => {
    const { holders } = await inner.inspect(ask.name, io);
    const [holder] = holders;
    await inner.release([{ ...ask, grantId: holder?.grantId ?? from }], io);
    return (await inner.attempt(ask, io)) as Granted;
  });
  expect(broken).toEqual(promises);
});

it("the driver contract rejects an exchange whose repetition is refused", async () => {
  const promises = ["the same exchange asked again is the same grant"];
  const broken = await brokenBy(promises, (_inner, exchange) => {
    const seen = new Set<string>();
    return async (from: string, ask: Ask, io: Io) => {
      if (seen.has(ask.grantId)) return { kind: "gone", reason: "taken" };
      seen.add(ask.grantId);
      return exchange(from, ask, io);
    };
  });
  expect(broken).toEqual(promises);
});

it("the driver contract rejects an exchange that keeps the token", async () => {
  const promises = ["the new grant has a larger token"];
  const broken = await brokenBy(promises, (inner, exchange) => async (from, ask, io) => {
    const { holders } = await inner.inspect(ask.name, io);
    const token = holders.find(({ grantId }) => grantId === from)?.token;
    const answer = await exchange(from, ask, io);
    if (answer.kind === "gone" || token == null) return answer;
    return { ...answer, tokens: { first: token, count: 1 } };
  });
  expect(broken).toEqual(promises);
});
