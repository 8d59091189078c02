import { describe, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { describeFaultContract } from "../../src/testing/index.ts";
import { SOAK } from "../fixtures/soak.ts";
import { newPath } from "../fixtures/sqlite.ts";
import { numberedDriver } from "./kinds/numbered-driver.ts";
import { observedDriver } from "./kinds/observed-driver.ts";
import { pollingDriver } from "./kinds/polling-driver.ts";
import { openSessionDriver } from "./kinds/session-driver.ts";

const close = async (): Promise<void> => undefined;

describeFaultContract(
  { describe, it },
  {
    name: "memory",
    declares: memoryDriver(),
    time: "fake",
    open: async () => ({ driver: memoryDriver(), close }),
  },
);

describeFaultContract(
  { describe, it },
  {
    name: "sqlite",
    declares: sqliteDriver("locks.db"),
    time: "fake",
    open: async () => ({ driver: sqliteDriver(newPath()), close }),
  },
);

// A minute of sleeping, side by side: the same promises against the host's own clock and the doorbells.
if (SOAK)
  describeFaultContract(
    { describe, it: it.concurrent },
    {
      name: "sqlite in real time",
      declares: sqliteDriver("locks.db"),
      open: async () => ({ driver: sqliteDriver(newPath()), close }),
    },
  );

describeFaultContract(
  { describe, it },
  {
    name: "a store without a queue",
    declares: pollingDriver(),
    time: "fake",
    open: async () => ({ driver: pollingDriver(), close }),
  },
);

describeFaultContract(
  { describe, it },
  {
    name: "a store whose leases end with a session",
    declares: openSessionDriver().driver,
    time: "fake",
    open: async () => openSessionDriver(),
  },
);

describeFaultContract(
  { describe, it },
  {
    name: "a store that knows no time",
    declares: observedDriver(),
    time: "fake",
    open: async () => ({ driver: observedDriver(), close }),
  },
);

describeFaultContract(
  { describe, it },
  {
    name: "a store that gives numbers at enqueue, in whole seconds",
    declares: numberedDriver(),
    time: "fake",
    open: async () => ({ driver: numberedDriver(), close }),
  },
);
