import { execFileSync } from "node:child_process";
import type { DynamoDB } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callsOf } from "../../src/guards/dynamodb/client.ts";
import {
  type DynamoClient,
  type DynamoTransaction,
  dynamodbGuard,
  dynamodbGuardTable,
  dynamodbTransaction,
  idempotent,
} from "../../src/guards/dynamodb/index.ts";
import { Transaction } from "../../src/guards/dynamodb/transaction.ts";
import { describeGuardContract, type GuardFixture } from "../../src/testing/index.ts";
import { DynamoServer, describeDynamo } from "../fixtures/dynamodb-server.ts";

const DATA = "data";
let server: DynamoServer;
let one: DynamoDB;
let two: DynamoDB;
let tables = 0;

const keyOf = (key: string) => ({ TableName: DATA, Key: { pk: { S: key } } });

const fixture: GuardFixture<DynamoClient, DynamoTransaction> = {
  name: "dynamodb",
  bodies: "async",
  has: { openTransactions: true, fencedRows: false },
  async open() {
    tables += 1;
    const table = `guard${tables}`;
    const of = (key: string): string => `${table}/${key}`;
    await one.createTable(dynamodbGuardTable(table));
    return {
      db: one,
      other: two,
      guard: (options) => dynamodbGuard({ ...options, table }),
      transaction: async (client, body) => dynamodbTransaction(client, async (tx) => body(tx)),
      read: async (tx, key) => (await tx.get(keyOf(of(key))))?.["value"]?.S ?? null,
      write: (tx, key, value) => {
        tx.put({ TableName: DATA, Item: { pk: { S: of(key) }, value: { S: value } } });
      },
      async begin(client) {
        const tx = new Transaction(callsOf(client));
        return {
          tx,
          async commit() {
            if ((await tx.commit()) !== "committed") throw new Error("conflict");
          },
          rollback: async () => {
            tx.end();
          },
        };
      },
      close: async () => {
        await one.deleteTable({ TableName: table });
      },
    };
  },
};

const holder = (token: bigint) =>
  ({ token, grantId: `g${token}`.padEnd(27, "-"), scope: "s".repeat(27), trust: true }) as const;

describeDynamo("the DynamoDB guard", () => {
  beforeAll(async () => {
    server = await DynamoServer.start();
    one = server.client();
    two = server.client();
    await one.createTable(dynamodbGuardTable(DATA));
    await one.createTable(dynamodbGuardTable());
  }, 90_000);
  afterAll(async () => {
    one.destroy();
    two.destroy();
    await server.stop();
  });

  describeGuardContract({ describe, it }, fixture);

  it("is tested on loopback only", () => {
    const listening = execFileSync("cat", ["/proc/net/tcp", "/proc/net/tcp6"]).toString();
    const port = server.port.toString(16).toUpperCase().padStart(4, "0");
    const addresses = [...listening.matchAll(new RegExp(`([0-9A-F]+):${port} [0-9A-F:]+ 0A`, "g"))];
    expect(addresses.map(([, address]) => address)).toEqual(["0100007F"]);
  });

  it("writes, updates, deletes and checks under the guard, all or nothing", async () => {
    const guard = dynamodbGuard();
    const [a, b] = [holder(33n), holder(34n)];
    const count = (n: string) => ({ pk: { S: "count" }, n: { N: n } });
    await guard.run(one, "count", a, async (tx) => {
      expect(await tx.get(keyOf("count"))).toBe(null);
      tx.put({ TableName: DATA, Item: count("1") });
      expect(await tx.get(keyOf("count"))).toEqual(count("1"));
      tx.put({ TableName: DATA, Item: count("2") });
      tx.put({ TableName: DATA, Item: { pk: { S: "other" } } });
    });
    await guard.run(one, "count", a, async (tx) => {
      expect((await tx.get(keyOf("count")))?.["n"]?.N).toBe("2");
      tx.update({
        ...keyOf("count"),
        UpdateExpression: "SET n = n + :one",
        ExpressionAttributeValues: { ":one": { N: "1" } },
      });
      await expect(tx.get(keyOf("count"))).rejects.toMatchObject({ code: "ERR_INVALID_ARGUMENT" });
      expect(() => {
        tx.update({ ...keyOf("count"), UpdateExpression: "REMOVE n" });
      }).toThrow(/one write per item/);
      tx.delete(keyOf("other"));
      expect(await tx.get(keyOf("other"))).toBe(null);
    });
    // A condition of the user's own: the SDK's own error, and nothing is written.
    const failing = guard.run(one, "count", a, async (tx) => {
      tx.put({ TableName: DATA, Item: { pk: { S: "other" } } });
      tx.check({ ...keyOf("count"), ConditionExpression: "attribute_not_exists(pk)" });
    });
    await expect(failing).rejects.toMatchObject({ name: "TransactionCanceledException" });
    await guard.claim(two, "count", b);
    const late = dynamodbTransaction(one, async (tx) => {
      await guard.verify(tx, "count", a);
      tx.put({ TableName: DATA, Item: count("9") });
    });
    await expect(late).rejects.toMatchObject({ code: "ERR_STALE_TOKEN", highest: 34n });
    const [counted, other] = await Promise.all([
      one.getItem(keyOf("count")),
      one.getItem(keyOf("other")),
    ]);
    expect([counted.Item?.["n"]?.N, other.Item]).toEqual(["3", undefined]);
  });

  it("runs what is idempotent once per key, and gives every later call the first response", async () => {
    let runs = 0;
    const pay = async (client: DynamoDB, request: unknown, order = 1): Promise<unknown> =>
      dynamodbTransaction(client, async (tx) =>
        idempotent(tx, `pay/${order}`, request, async (inside) => {
          runs += 1;
          const paid = (await inside.get(keyOf(`paid/${order}`)))?.["n"]?.N ?? "0";
          inside.put({
            TableName: DATA,
            Item: { pk: { S: `paid/${order}` }, n: { N: String(Number(paid) + 1) } },
          });
          return { receipt: `of run ${Number(paid) + 1}`, at: new Date(0) };
        }),
      );
    const first = await pay(one, { amount: 5, to: "bob" });
    expect(first).toEqual({ receipt: "of run 1", at: "1970-01-01T00:00:00.000Z" });
    expect(await pay(two, { to: "bob", amount: 5 })).toEqual(first);
    expect(runs).toBe(1);
    await expect(pay(one, { amount: 6, to: "bob" })).rejects.toMatchObject({
      code: "ERR_IDEMPOTENCY_CONFLICT",
    });
    const together = await Promise.all(
      Array.from({ length: 8 }, async (_, i) => pay(i % 2 === 0 ? one : two, "same", 2)),
    );
    expect(new Set(together.map((response) => JSON.stringify(response))).size).toBe(1);
    const paid = await one.getItem(keyOf("paid/2"));
    expect(paid.Item?.["n"]?.N).toBe("1");
    const stored = await one.getItem({
      TableName: "ringfence_guard",
      Key: { pk: { S: "k#pay/2" } },
    });
    const days = (Number(stored.Item?.["expires_at"]?.N) - Date.now() / 1000) / 86_400;
    expect(Math.round(days)).toBe(7);
    for (const wrong of ["", "x".repeat(256)])
      await expect(
        dynamodbTransaction(one, async (tx) => idempotent(tx, wrong, 1, async () => 1)),
      ).rejects.toMatchObject({ code: "ERR_INVALID_ARGUMENT" });
  });

  it("leaves no key behind when the effect fails", async () => {
    const attempt = async (fails: boolean): Promise<number> =>
      dynamodbTransaction(one, async (tx) =>
        idempotent(tx, "may fail", null, async () => {
          if (fails) throw new Error("not this time");
          return 42;
        }),
      );
    await expect(attempt(true)).rejects.toThrow("not this time");
    expect(await attempt(false)).toBe(42);
  });

  it("refuses a table that is missing, keyed otherwise, or replicated last-writer-wins", async () => {
    const claim = async (client: DynamoClient, table: string): Promise<void> =>
      dynamodbGuard({ table }).claim(client, "a", holder(1n));
    await expect(claim(one, "missing")).rejects.toMatchObject({
      code: "ERR_BACKEND_CONFIG",
      message: expect.stringContaining("createTable") as string,
    });
    await one.createTable({
      TableName: "otherwise",
      AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
      KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
      BillingMode: "PAY_PER_REQUEST",
    });
    await expect(claim(one, "otherwise")).rejects.toMatchObject({ code: "ERR_BACKEND_CONFIG" });
    // DynamoDB Local has no replicas: what describeTable says is played.
    const replicated = Object.create(one) as DynamoClient;
    const described = { KeySchema: [{ AttributeName: "pk" }], Replicas: [{}] };
    replicated.describeTable = async () => ({ Table: described });
    await expect(claim(replicated, "ringfence_guard")).rejects.toThrow(/last writer/);
    replicated.describeTable = async () => ({
      Table: { ...described, MultiRegionConsistency: "STRONG" },
    });
    await claim(replicated, "ringfence_guard");
    await expect(claim({} as DynamoClient, "ringfence_guard")).rejects.toThrow(/new DynamoDB/);
  });
});
