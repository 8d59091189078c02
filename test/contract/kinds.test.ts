import { describe, expect, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";
import { CollectingRunner } from "./collecting-runner.ts";
import { numberedDriver } from "./kinds/numbered-driver.ts";
import { observedDriver } from "./kinds/observed-driver.ts";
import { pollingDriver } from "./kinds/polling-driver.ts";
import { openSessionDriver } from "./kinds/session-driver.ts";

const close = async (): Promise<void> => undefined;

describeDriverContract(
  { describe, it },
  {
    name: "a store without a queue",
    declares: pollingDriver(),
    time: "fake",
    open: async () => ({ driver: pollingDriver(), close }),
  },
);

describeDriverContract(
  { describe, it },
  {
    name: "a store whose leases end with a session",
    declares: openSessionDriver().driver,
    time: "fake",
    open: async () => openSessionDriver(),
  },
);

describeDriverContract(
  { describe, it },
  {
    name: "a store that knows no time",
    declares: observedDriver(),
    time: "fake",
    open: async () => ({ driver: observedDriver(), close }),
  },
);

describeDriverContract(
  { describe, it },
  {
    name: "a store that gives numbers at enqueue, in whole seconds",
    declares: numberedDriver(),
    time: "fake",
    open: async () => ({ driver: numberedDriver(), close }),
  },
);

it("the driver contract rejects a store without a queue that claims to have queued", async () => {
  const runner = new CollectingRunner();
  describeDriverContract(runner, {
    name: "broken",
    declares: pollingDriver(),
    time: "fake",
    open: async () => ({ driver: pollingDriver(true), close }),
  });
  const broken = (await runner.failures()).map(({ test }) => test);
  expect(broken).toContain("never claims to queue, and keeps no entry of those who wanted to");
});

it("the driver contract needs a way to end sessions where leases live by them", async () => {
  const runner = new CollectingRunner();
  describeDriverContract(runner, {
    name: "without endSession",
    declares: openSessionDriver().driver,
    time: "fake",
    open: async () => ({ driver: openSessionDriver().driver, close }),
  });
  const errors = (await runner.failures()).map(({ error }) => String(error));
  expect(errors.length).toBeGreaterThan(0);
  for (const error of errors) expect(error).toContain("`endSession`");
});

it("the driver contract says what does not apply, and why", () => {
  const runner = new CollectingRunner();
  const open = async () => ({ driver: memoryDriver(), close });
  describeDriverContract(runner, { name: "memory", declares: memoryDriver(), open });
  const excused = runner.tests
    .map(({ name }) => name)
    .filter((name) => name.startsWith("does not apply"));
  expect(excused).toEqual([
    "does not apply: time is real (tokens: tokens rise though the wall clock was set back)",
    "does not apply: time is real, and the fixture names no `keepEntryMs` (queue liveness: a waiter that was silent too long is passed over, and gets no second entry)",
    "does not apply: time is real, and the fixture names no `keepEntryMs` (queue liveness: a waiter that was silent and comes back stands where it stood, or is told to start anew)",
    'does not apply: waiting is "queue" (polling)',
    'does not apply: transfer is "no" (exchange)',
  ]);
});
