import { describe, it } from "vitest";
import { describeGuardContract } from "../../src/testing/index.ts";
import {
  type Connection,
  fileFixture,
  memoryFixture,
  sqliteFixture,
} from "../support/guard-fixtures.ts";

describeGuardContract({ describe, it }, memoryFixture("memory"));
describeGuardContract({ describe, it }, sqliteFixture("sqlite (WAL)"));
describeGuardContract(
  { describe, it },
  sqliteFixture("sqlite (rollback journal)", { journal: "delete" }),
);
describeGuardContract({ describe, it }, fileFixture("file"));

/** Node's own client, from 22.13 on. */
const own = process.getBuiltinModule("node:sqlite") as
  | { readonly DatabaseSync: new (file: string) => Connection }
  | undefined;

if (own === undefined)
  it.skip(`guard contract: node:sqlite (Node ${process.versions.node} does not have it)`);
else {
  const { DatabaseSync } = own;
  describeGuardContract(
    { describe, it },
    sqliteFixture("node:sqlite", { open: (file) => new DatabaseSync(file) }),
  );
}
