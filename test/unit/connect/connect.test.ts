import { describe, expect, it } from "vitest";
import { connect, redactUrl } from "../../../src/connect/index.ts";
import { InvalidArgumentError, UnsupportedError } from "../../../src/core/errors.ts";

describe("connect", () => {
  it.each(["memory:", "memory://", "MEMORY:"])("makes a memory driver for %s", async (url) => {
    expect((await connect(url)).name).toBe("memory");
  });
  it.each([
    "sqlite:/tmp/a.db",
    "sqlite:a.db",
    "sqlite:///tmp/a.db",
    "sqlite:a%20b.db?durability=full",
  ])("makes a SQLite driver for %s, without touching the file", async (url) => {
    expect((await connect(url)).name).toBe("sqlite");
  });
  it("declares durable fencing where each grant is synced", async () => {
    expect((await connect("sqlite:a.db?durability=full")).fencing).toBe("durable");
    expect((await connect("sqlite:a.db")).fencing).toBe("volatile");
  });
  it.each([
    "redis://h",
    "redis://h:6380/2",
    "rediss://user:secret@h",
    "redis://[::1]:6379",
    "redis://h?cluster=true",
  ])("makes the Redis driver for %s", async (url) => {
    const driver = await connect(url);
    expect([driver.name, driver.fencing]).toEqual(["redis", "volatile"]);
  });
  it.each([
    "redlock:redis://a,redis://b,redis://c",
    "redlock:redis://u:p@a:1/0,rediss://b,redis://[::1]:7?quorum=3",
  ])("makes the Redlock driver for %s", async (url) => {
    const driver = await connect(url);
    expect([driver.name, driver.fencing, driver.waiting]).toEqual(["redlock", "volatile", "poll"]);
  });
  it("makes a Redlock driver without tokens where locks only save work", async () => {
    const url = "redlock:redis://a,redis://b,redis://c?efficiencyOnly=true";
    expect((await connect(url)).fencing).toBe("none");
  });
  it("refuses a quorum of half of the servers, with the arithmetic", async () => {
    const four = "redlock:redis://a,redis://b,redis://c,redis://d";
    await expect(connect(`${four}?quorum=2`)).rejects.toThrow("2 + 2 = 4 is not more than 4");
    await expect(connect("redlock:redis://a,redis://b")).rejects.toThrow("2 of 2");
  });
  it("makes a Redis driver without tokens where locks only save work", async () => {
    expect((await connect("redis://h?efficiencyOnly=true")).fencing).toBe("none");
  });
  it.each([
    "postgres://h/db",
    "postgres://u:secret@h:5433/db?sslmode=require",
    "postgresql://h?schema=my%20locks&tablePrefix=l_&autoCreate=false&maxSessions=2&pooler=session",
  ])("makes the PostgreSQL driver for %s", async (url) => {
    const driver = await connect(url);
    expect([driver.name, driver.fencing]).toEqual(["postgres", "durable"]);
  });
  it.each([
    "mysql://h/db",
    "mariadb://u:secret@h:3307/db?connectTimeout=1000",
    "mysql://h?database=my%20locks&tablePrefix=l_&autoCreate=false&maxSessions=2&pooler=session",
  ])("makes the MySQL driver for %s", async (url) => {
    const driver = await connect(url);
    expect([driver.name, driver.fencing]).toEqual(["mysql", "durable"]);
  });
  it("makes the driver of advisory locks for postgres+advisory:", async () => {
    const driver = await connect("postgres+advisory://u:secret@h/db?maxSessions=5");
    expect([driver.name, driver.liveness]).toEqual(["postgres-advisory", "session"]);
  });
  it.each(["etcd://a,b", "zookeeper://a,b/c", "dynamodb://eu-west-1/t"])(
    "says that this build has no driver for %s",
    async (url) => {
      await expect(connect(url)).rejects.toThrow(UnsupportedError);
      await expect(connect(url)).rejects.toThrow("has no driver for");
    },
  );
  it.each([
    "mongodb://h",
    "/var/lib/locks.db",
    "",
    "sqlite:",
    "sqlite://host/x.db",
    "sqlite::memory:",
    "sqlite:a.db?durabilty=full",
    "sqlite:a.db?durability=most",
    "sqlite:%zz",
    "memory:x",
    "redis:h",
    "redis:///0",
    "redis://h?replicas=some",
    "redis://h?cluster=1",
    "redis://h?family=6",
    "postgres:db",
    "postgres://h/db?autoCreate=perhaps",
    "postgres://h/db?maxSessions=0",
    "postgres://h/db?pooler=transaction",
    "postgres://h/db?schema=",
    "mysql:db",
    "mysql://h/db?autoCreate=perhaps",
    "mysql://h/db?maxSessions=0",
    "mysql://h/db?database=",
    "redlock:a,b,c",
    "redlock:redis://a,redis://b,",
    "redlock:redis://a,redis://b,redis://c?quorum=most",
    "redlock:redis://a,redis://b,redis://c?quorum=4",
    "redlock:redis://a,redis://b,redis://c?replicas=1",
  ])("refuses %j", async (url) => {
    await expect(connect(url)).rejects.toThrow(InvalidArgumentError);
  });
  it("lists the known schemes when it knows none", async () => {
    await expect(connect("mongodb://h")).rejects.toThrow(/memory:, sqlite:, redis:, .*dynamodb:/);
  });
  it.each([
    "redis://u:hunter2@h/0?family=6",
    "mongodb://u:hunter2@h",
    "mysql:u:hunter2@h/db",
    "etcd://a:hunter2@h1,b:hunter2@h2?password=hunter2",
  ])("shows no password of %s", async (url) => {
    const error = await connect(url).then(String, (reason: unknown) => reason as Error);
    expect(JSON.stringify(error)).not.toContain("hunter2");
    expect(JSON.stringify(error)).toContain("***");
  });
});

it("redacts every password of a list, and secret parameters", () => {
  expect(redactUrl("redlock:redis://:p@a:1,redis://u:q@b:2/0?password=r&db=1")).toBe(
    "redlock:redis://:***@a:1,redis://u:***@b:2/0?password=***&db=1",
  );
});

it.each([
  ["redis://u:p@ss/w@rd@h", "redis:***@h"],
  ["postgres://u:pa/ss,w:rd@h/db", "postgres:***@h/db"],
  ["redis://u:pa,ss@h:1", "redis:***@h:1"],
  ["redis://u:p?x@h/0?db=1", "redis://u:***@h/0?db=1"],
  ["u:p@h", "u:***@h"],
])("shows nothing before the last @ of a URL that it cannot read exactly: %s", (url, shown) => {
  expect(redactUrl(url)).toBe(shown);
});

it.each([
  "sqlite:/a@b.db",
  "sqlite:a@b:c.db",
  "redis://user@h:6379/0",
  "etcd://a:1,b:2",
  "memory:",
])("leaves %s as it is", (url) => {
  expect(redactUrl(url)).toBe(url);
});
