import { describe, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { describeFaultContract } from "../../src/testing/index.ts";
import { newPath } from "../fixtures/sqlite.ts";

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
