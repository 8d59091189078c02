import { describe, it } from "vitest";
import { describeGuardContract } from "../../src/testing/index.ts";
import { fileFixture, memoryFixture, sqliteFixture } from "../support/guard-fixtures.ts";

describeGuardContract({ describe, it }, memoryFixture("memory"));
describeGuardContract({ describe, it }, sqliteFixture("sqlite (WAL)", "wal"));
describeGuardContract({ describe, it }, sqliteFixture("sqlite (rollback journal)", "delete"));
describeGuardContract({ describe, it }, fileFixture("file"));
