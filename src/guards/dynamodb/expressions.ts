/*
 * The guard's items in its table, by partition key `pk`: `e#<resource>` an entry, `f#<scope>` the floor that missing
 * entries inherit, `k#<key>` an idempotency key with its request and response. Tokens are numbers (38 digits).
 */
import { BackendConfigError } from "../../core/errors.ts";
import type { Claim } from "../../core/guard.ts";
import type { UsedClaim } from "../../core/guard-entries.ts";
import type { DynamoItem, DynamoWrite } from "./client.ts";

const FORMAT = "1";

/** What `createTable` needs for a guard's table. */
export interface DynamoGuardTable {
  TableName: string;
  AttributeDefinitions: { AttributeName: string; AttributeType: "S" }[];
  KeySchema: { AttributeName: string; KeyType: "HASH" }[];
  BillingMode: "PAY_PER_REQUEST";
}

/** The input of `createTable` for a guard's table. Time to live, where it is wanted, goes by the attribute `expires_at`. */
export function dynamodbGuardTable(table = "ringfence_guard"): DynamoGuardTable {
  return {
    TableName: table,
    AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "pk", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  };
}

export function entryKey(resource: string): DynamoItem {
  return { pk: { S: `e#${resource}` } };
}

export function floorKey(scope: string): DynamoItem {
  return { pk: { S: `f#${scope}` } };
}

/** @throws BackendConfigError for an item of a newer version */
export function entryOf(item: DynamoItem | undefined): UsedClaim | null {
  if (item === undefined) return null;
  const { v, token, grant, scope, used } = item;
  if (v?.N !== FORMAT)
    throw new BackendConfigError(
      `The guard's item has format ${v?.N ?? "none"}; this version knows ${FORMAT}. Update ringfence here.`,
      { operation: "read", outcome: "not-applied" },
    );
  return {
    token: BigInt(token?.N ?? "0"),
    grantId: grant?.S ?? "",
    scope: scope?.S ?? "",
    usedAtMs: Number(used?.N ?? "0"),
  };
}

const NAMES = { "#token": "token", "#grant": "grant", "#scope": "scope" };
const SAME = "#token = :token AND #grant = :grant AND #scope = :scope";

function pairOf({ token, grantId, scope }: Claim): DynamoItem {
  return { ":token": { N: token.toString() }, ":grant": { S: grantId }, ":scope": { S: scope } };
}

/** Holds while the entry is this pair, and marks it as used. */
export function stands(table: string, resource: string, claim: Claim, nowMs: number): DynamoWrite {
  return {
    Update: {
      TableName: table,
      Key: entryKey(resource),
      UpdateExpression: "SET #used = :used",
      ConditionExpression: SAME,
      ExpressionAttributeNames: { ...NAMES, "#used": "used" },
      ExpressionAttributeValues: { ...pairOf(claim), ":used": { N: String(nowMs) } },
      ReturnValuesOnConditionCheckFailure: "ALL_OLD",
    },
  };
}

/** Installs an entry while the one that was read is still there. */
export function installs(
  table: string,
  resource: string,
  seen: Claim | null,
  { token, grantId, scope }: Claim,
  nowMs: number,
): DynamoWrite {
  const Item = {
    ...entryKey(resource),
    v: { N: FORMAT },
    token: { N: token.toString() },
    grant: { S: grantId },
    scope: { S: scope },
    used: { N: String(nowMs) },
  };
  if (seen === null)
    return { Put: { TableName: table, Item, ConditionExpression: "attribute_not_exists(pk)" } };
  return {
    Put: {
      TableName: table,
      Item,
      ConditionExpression: SAME,
      ExpressionAttributeNames: NAMES,
      ExpressionAttributeValues: pairOf(seen),
    },
  };
}

/** Holds while a scope's floor is what was read; 0 for none. */
export function floorStands(table: string, scope: string, floor: bigint): DynamoWrite {
  const check = { TableName: table, Key: floorKey(scope) };
  if (floor === 0n)
    return { ConditionCheck: { ...check, ConditionExpression: "attribute_not_exists(pk)" } };
  return {
    ConditionCheck: {
      ...check,
      ConditionExpression: "#token = :token",
      ExpressionAttributeNames: { "#token": "token" },
      ExpressionAttributeValues: { ":token": { N: floor.toString() } },
    },
  };
}

/** Raises a scope's floor; its condition fails where that is as high already. */
export function raisesFloor(table: string, scope: string, floor: bigint): object {
  return {
    TableName: table,
    Key: floorKey(scope),
    UpdateExpression: "SET #token = :token, v = :v",
    ConditionExpression: "attribute_not_exists(#token) OR #token < :token",
    ExpressionAttributeNames: { "#token": "token" },
    ExpressionAttributeValues: { ":token": { N: floor.toString() }, ":v": { N: FORMAT } },
  };
}

/** Deletes an entry that nobody used since it was read. */
export function deletesUnused(table: string, pk: string, entry: UsedClaim): object {
  return {
    TableName: table,
    Key: { pk: { S: pk } },
    ConditionExpression: `${SAME} AND #used = :used`,
    ExpressionAttributeNames: { ...NAMES, "#used": "used" },
    ExpressionAttributeValues: { ...pairOf(entry), ":used": { N: String(entry.usedAtMs) } },
  };
}

/** Finds entries last used before a time. */
export function scansUnused(table: string, beforeMs: number): object {
  return {
    TableName: table,
    ConsistentRead: true,
    FilterExpression: "begins_with(pk, :entry) AND #used < :before",
    ExpressionAttributeNames: { "#used": "used" },
    ExpressionAttributeValues: { ":entry": { S: "e#" }, ":before": { N: String(beforeMs) } },
  };
}
