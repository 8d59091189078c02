import { describe, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { describeDriverContract } from "../../src/testing/index.ts";

describeDriverContract(
  { describe, it },
  {
    name: "memory",
    declares: memoryDriver(),
    time: "fake",
    open: async () => ({ driver: memoryDriver(), close: async () => undefined }),
  },
);
