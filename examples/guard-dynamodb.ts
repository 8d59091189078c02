/* A wallet in DynamoDB: one guarded transaction, and a payment that is made once however often it is asked for. */
import type { DynamoDB } from "@aws-sdk/client-dynamodb";
import { memoryDriver } from "../src/drivers/memory/index.ts";
import {
  dynamodbGuard,
  dynamodbGuardTable,
  dynamodbTransaction,
  idempotent,
} from "../src/guards/dynamodb/index.ts";
import { createLockManager } from "../src/index.ts";

export async function main(client: DynamoDB): Promise<{ readonly left: string | undefined }> {
  const guards = "example_guard";
  await client.createTable(dynamodbGuardTable(guards));
  await client.createTable(dynamodbGuardTable("wallet"));
  const alice = { TableName: "wallet", Key: { pk: { S: "alice" } } };

  const locks = createLockManager(memoryDriver());
  const guard = dynamodbGuard({ table: guards });
  await locks.request("wallet/alice", async (lease) => {
    await guard.run(client, "wallet/alice", lease, async (tx) => {
      const balance = Number((await tx.get(alice))?.["balance"]?.N ?? "100");
      const item = { pk: { S: "alice" }, balance: { N: String(balance - 30) } };
      tx.put({ TableName: "wallet", Item: item });
    });
  });
  await locks.close();

  // No lock: the key makes the second call get the first response.
  const debit = async (key: string): Promise<unknown> =>
    dynamodbTransaction(client, async (tx) =>
      idempotent(
        tx,
        key,
        { debit: 20 },
        async (inside) => {
          inside.update({
            ...alice,
            UpdateExpression: "SET balance = balance - :n",
            ConditionExpression: "balance >= :n",
            ExpressionAttributeValues: { ":n": { N: "20" } },
          });
          return { debited: 20 };
        },
        { table: guards },
      ),
    );
  await debit("order/1");
  await debit("order/1");

  const { Item } = await client.getItem({ ...alice, ConsistentRead: true });
  return { left: Item?.["balance"]?.N };
}
