import { expect, it } from "vitest";
import { main as dynamodb } from "../../examples/guard-dynamodb.ts";
import { main as http } from "../../examples/guard-http.ts";
import { main as redis } from "../../examples/guard-redis.ts";
import { main as s3 } from "../../examples/guard-s3.ts";
import { DynamoServer, describeDynamo } from "../fixtures/dynamodb-server.ts";
import { ObjectServer } from "../fixtures/object-server.ts";
import { describeRedis, RedisServer, stopAfter } from "../fixtures/redis-server.ts";

it("examples/guard-http.ts lets the holder write, and refuses the one that came late", async () => {
  expect(await http()).toEqual({ text: "draft, edited", late: 409 });
});

it("examples/guard-s3.ts replaces two objects by one", async () => {
  const server = stopAfter(await ObjectServer.start());
  expect(await s3(`${server.endpoint}/bucket`)).toEqual({ merged: "a\nb\n", segment: null });
});

describeRedis("on Redis", () => {
  it("examples/guard-redis.ts writes in a transaction, by value and by script", async () => {
    const server = stopAfter(await RedisServer.start());
    expect(await redis(server.url)).toEqual({ hammers: 7, key: "{shop}:stock" });
  });
});

describeDynamo("on DynamoDB", () => {
  it("examples/guard-dynamodb.ts debits once under the guard, and once per key", async () => {
    const server = stopAfter(await DynamoServer.start());
    const client = server.client();
    expect(await dynamodb(client)).toEqual({ left: "50" });
    client.destroy();
  }, 90_000);
});
