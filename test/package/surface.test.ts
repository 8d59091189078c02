import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, it } from "vitest";
import { ensureBuilt, entries, ROOT } from "./built.ts";
import { type Surface, surfaces } from "./surface.ts";

let all: ReadonlyMap<string, Surface>;
beforeAll(() => {
  ensureBuilt();
  all = surfaces();
}, 120_000);

// A change of a public name is a change of these lists, for a reviewer to see.

it("ringfence", () => {
  expect(all.get(".")).toMatchInlineSnapshot(`
    {
      "types": [
        "Acquirable",
        "AcquireOptions",
        "Answer",
        "Ask",
        "Backend",
        "BackendFacts",
        "Busy",
        "Capabilities",
        "Clock",
        "CreateLockManager",
        "Credential",
        "Declaration",
        "Driver",
        "DriverContext",
        "Duration",
        "ErrorCode",
        "Fenced",
        "FencedLease",
        "Fencing",
        "FencingToken",
        "Finding",
        "GoneReason",
        "GrantRef",
        "Granted",
        "GuaranteeCell",
        "GuaranteeRow",
        "Guard",
        "GuardBinding",
        "HeldInfo",
        "Holder",
        "Host",
        "Io",
        "Keepalive",
        "Lease",
        "LeaseBase",
        "LeaseClock",
        "LeaseSet",
        "LeaseState",
        "Liveness",
        "LockEvent",
        "LockEventName",
        "LockEvents",
        "LockInfo",
        "LockManager",
        "LockRecord",
        "LostReason",
        "ManagerOptions",
        "Mints",
        "Mode",
        "Narrowed",
        "Notice",
        "OnceOptions",
        "OnceResult",
        "Outcome",
        "PendingInfo",
        "Presented",
        "QueryResult",
        "Random",
        "Release",
        "ReleaseOutcome",
        "Renewal",
        "Requirements",
        "Resources",
        "Retains",
        "Satisfiable",
        "SequencerKey",
        "SyncGuard",
        "Timer",
        "Transfer",
        "TryOptions",
        "Waiting",
        "WithToken",
      ],
      "values": [
        "AcquireTimeoutError",
        "BackendConfigError",
        "BackendError",
        "BackendTimeoutError",
        "BackendUnavailableError",
        "DeadlockError",
        "DriverError",
        "GuardScopeError",
        "IdempotencyConflictError",
        "IdempotencyInProgressError",
        "InvalidArgumentError",
        "LeaseLostError",
        "LeaseReleasedError",
        "ManagerClosedError",
        "PermitMismatchError",
        "QuorumError",
        "RingfenceError",
        "StaleTokenError",
        "UnsupportedError",
        "createLockManager",
      ],
    }
  `);
});

it("ringfence/memory", () => {
  expect(all.get("./memory")).toMatchInlineSnapshot(`
    {
      "types": [
        "MemoryCapabilities",
      ],
      "values": [
        "memoryDriver",
      ],
    }
  `);
});

it("ringfence/sqlite", () => {
  expect(all.get("./sqlite")).toMatchInlineSnapshot(`
    {
      "types": [
        "SqliteCapabilities",
        "SqliteDatabase",
        "SqliteDurableCapabilities",
        "SqliteOptions",
        "SqliteStatement",
        "SqliteValue",
      ],
      "values": [
        "sqliteDriver",
        "sqliteSchema",
      ],
    }
  `);
});

it("ringfence/connect", () => {
  expect(all.get("./connect")).toMatchInlineSnapshot(`
    {
      "types": [],
      "values": [
        "connect",
        "redactUrl",
      ],
    }
  `);
});

it("ringfence/testing", () => {
  expect(all.get("./testing")).toMatchInlineSnapshot(`
    {
      "types": [
        "ContractRunner",
        "DriverFixture",
        "FakeClockStart",
        "FencedRows",
        "GuardFixture",
        "GuardUnderTest",
        "OpenTransaction",
        "OpenedDriver",
        "OpenedResource",
      ],
      "values": [
        "FakeClock",
        "FakeRandom",
        "describeDriverContract",
        "describeFaultContract",
        "describeGuardContract",
      ],
    }
  `);
});

it("ringfence/guards/memory", () => {
  expect(all.get("./guards/memory")).toMatchInlineSnapshot(`
    {
      "types": [
        "MemoryGuard",
        "MemoryStore",
        "MemoryTransaction",
      ],
      "values": [
        "memoryGuard",
        "memoryStore",
      ],
    }
  `);
});

it("ringfence/guards/sqlite", () => {
  expect(all.get("./guards/sqlite")).toMatchInlineSnapshot(`
    {
      "types": [
        "ClaimFragment",
        "FenceColumns",
        "SqlFragment",
        "SqliteConnection",
        "SqliteGuard",
        "SqliteGuardOptions",
        "SqliteStatement",
      ],
      "values": [
        "sqliteGuard",
        "sqliteGuardSchema",
      ],
    }
  `);
});

it("ringfence/redis", () => {
  expect(all.get("./redis")).toMatchInlineSnapshot(`
    {
      "types": [
        "IoredisClient",
        "NodeRedisClient",
        "RedisCapabilities",
        "RedisClient",
        "RedisDriverOptions",
        "RedisEfficiencyCapabilities",
      ],
      "values": [
        "redisDriver",
      ],
    }
  `);
});

it("ringfence/redlock", () => {
  expect(all.get("./redlock")).toMatchInlineSnapshot(`
    {
      "types": [
        "IoredisClient",
        "NodeRedisClient",
        "RedisClient",
        "RedlockCapabilities",
        "RedlockDriverOptions",
        "RedlockEfficiencyCapabilities",
      ],
      "values": [
        "redlockDriver",
      ],
    }
  `);
});

it("ringfence/mysql", () => {
  const types = ["MysqlCapabilities", "MysqlClient", "MysqlConnection", "MysqlDriverOptions"];
  const values = ["mysqlDriver", "mysqlSchema"];
  expect(all.get("./mysql")).toEqual({ types: [...types, "MysqlPool"], values });
});

it("ringfence/postgres", () => {
  expect(all.get("./postgres")).toMatchInlineSnapshot(`
    {
      "types": [
        "AdvisoryOptions",
        "DrizzleTransaction",
        "KyselyTransaction",
        "PgClient",
        "PgPool",
        "PgTransaction",
        "PostgresAdvisoryCapabilities",
        "PostgresCapabilities",
        "PostgresClient",
        "PostgresDriverOptions",
        "PostgresJs",
        "PostgresJsTransaction",
        "PrismaTransaction",
        "RowOf",
        "UserTransaction",
        "XactOptions",
      ],
      "values": [
        "LockNotAvailableError",
        "postgresAdvisoryDriver",
        "postgresDriver",
        "postgresSchema",
        "tryRowLock",
        "withAdvisoryXact",
        "withRowLock",
      ],
    }
  `);
});

it("ringfence/guards/file", () => {
  expect(all.get("./guards/file")).toMatchInlineSnapshot(`
    {
      "types": [
        "FileGuard",
        "FileStore",
        "FileTransaction",
      ],
      "values": [
        "fileGuard",
        "fileStore",
      ],
    }
  `);
});

it("ringfence/guards/postgres", () => {
  expect(all.get("./guards/postgres")).toMatchInlineSnapshot(`
    {
      "types": [
        "ClaimFragment",
        "FenceColumns",
        "FenceValues",
        "GuardTriggerOptions",
        "Numbering",
        "PgClient",
        "PgPool",
        "PostgresDatabase",
        "PostgresGuard",
        "PostgresGuardOptions",
        "PostgresJs",
        "PostgresJsTransaction",
        "PostgresTransaction",
        "SqlFragment",
        "SqlTag",
        "TransactionOf",
      ],
      "values": [
        "postgresGuard",
        "postgresGuardSchema",
        "postgresGuardTrigger",
      ],
    }
  `);
});

it("ringfence/guards/mysql", () => {
  expect(all.get("./guards/mysql")).toMatchInlineSnapshot(`
    {
      "types": [
        "ClaimFragment",
        "ConnectionOf",
        "FenceColumns",
        "FenceValues",
        "MysqlConnection",
        "MysqlGuard",
        "MysqlGuardOptions",
        "MysqlPool",
        "SqlFragment",
      ],
      "values": [
        "mysqlGuard",
        "mysqlGuardSchema",
      ],
    }
  `);
});

it("ringfence/guards/idempotency", () => {
  expect(all.get("./guards/idempotency")).toMatchInlineSnapshot(`
    {
      "types": [
        "AsyncQueries",
        "CallOptions",
        "Dialect",
        "IdempotentOptions",
        "MysqlQueries",
        "PgQueries",
        "PostgresJsQueries",
        "Provider",
        "Queries",
        "SqliteQueries",
        "SweepOptions",
      ],
      "values": [
        "createIdempotencyTable",
        "idempotencySchema",
        "idempotent",
        "idempotentCall",
        "settleIdempotentCall",
        "sweepIdempotency",
      ],
    }
  `);
});

it("ringfence/guards/http", () => {
  expect(all.get("./guards/http")).toMatchInlineSnapshot(`
    {
      "types": [
        "Fence",
        "FencedFetchOptions",
        "HttpGuard",
        "HttpGuardOptions",
        "InnerGuard",
        "Problem",
        "Requirement",
        "Route",
      ],
      "values": [
        "SEQUENCER_HEADER",
        "fencedFetch",
        "httpGuard",
        "problemOf",
        "staleFrom",
      ],
    }
  `);
});

it("ringfence/guards/redis", () => {
  expect(all.get("./guards/redis")).toMatchInlineSnapshot(`
    {
      "types": [
        "GuardedScript",
        "IoredisConnection",
        "NodeRedisConnection",
        "RedisConnection",
        "RedisGuard",
        "RedisStore",
        "RedisTransaction",
      ],
      "values": [
        "redisGuard",
        "redisStore",
      ],
    }
  `);
});

it("ringfence/guards/s3", () => {
  expect(all.get("./guards/s3")).toMatchInlineSnapshot(`
    {
      "types": [
        "S3Client",
        "S3Guard",
        "S3Place",
        "S3Store",
        "S3StoreOptions",
        "S3Transaction",
      ],
      "values": [
        "s3Guard",
        "s3Store",
      ],
    }
  `);
});

it("ringfence/guards/dynamodb", () => {
  expect(all.get("./guards/dynamodb")).toMatchInlineSnapshot(`
    {
      "types": [
        "DynamoClient",
        "DynamoCondition",
        "DynamoDescription",
        "DynamoGuard",
        "DynamoGuardOptions",
        "DynamoGuardTable",
        "DynamoIdempotentOptions",
        "DynamoItem",
        "DynamoPage",
        "DynamoTransaction",
        "DynamoValue",
      ],
      "values": [
        "dynamodbGuard",
        "dynamodbGuardTable",
        "dynamodbTransaction",
        "idempotent",
      ],
    }
  `);
});

it("no subpath is left out above, and each really exports what its types say", async () => {
  const stores = "memory sqlite redis postgres mysql redlock";
  const guards = "memory sqlite file postgres mysql idempotency http redis s3 dynamodb";
  const expected = [
    ...[".", "./connect", "./testing"],
    ...stores.split(" ").map((store) => `./${store}`),
    ...guards.split(" ").map((guard) => `./guards/${guard}`),
  ];
  expect([...all.keys()].sort()).toEqual(expected.sort());
  for (const { subpath, code } of entries()) {
    const module = (await import(pathToFileURL(join(ROOT, code)).href)) as object;
    expect(Object.keys(module).sort(), subpath).toEqual(all.get(subpath)?.values);
  }
});
