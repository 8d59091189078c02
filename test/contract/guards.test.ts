import { describe, expect, it } from "vitest";
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
  it(`does not apply: Node ${process.versions.node} has no node:sqlite`, () => {
    const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
    expect(major < 22 || (major === 22 && minor < 13)).toBe(true);
    console.log(`the guard contract over node:sqlite does not apply on Node ${major}.${minor}`);
  });
else {
  const { DatabaseSync } = own;
  describeGuardContract(
    { describe, it },
    sqliteFixture("node:sqlite", { open: (file) => new DatabaseSync(file) }),
  );
}
