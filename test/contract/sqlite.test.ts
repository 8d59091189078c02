import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { type DriverFixture, describeDriverContract } from "../../src/testing/index.ts";

type Durability = "normal" | "full";

function fixture(durability: Durability, time: "fake" | "real"): DriverFixture {
  const make = (path: string) =>
    durability === "full" ? sqliteDriver(path, { durability }) : sqliteDriver(path);
  return {
    name: `sqlite, durability ${durability}, ${time} time`,
    declares: make("unused"),
    time,
    open: async () => {
      const folder = mkdtempSync(join(tmpdir(), "ringfence-sqlite-"));
      return {
        driver: make(join(folder, "locks.db")),
        close: async () => {
          rmSync(folder, { recursive: true, force: true });
        },
      };
    },
  };
}

describeDriverContract({ describe, it }, fixture("normal", "fake"));
describeDriverContract({ describe, it }, fixture("full", "fake"));
