export type {
  DynamoClient,
  DynamoCondition,
  DynamoDescription,
  DynamoItem,
  DynamoPage,
  DynamoValue,
} from "./client.ts";
export type { DynamoGuardTable } from "./expressions.ts";
export { dynamodbGuardTable } from "./expressions.ts";
export type { DynamoGuard, DynamoGuardOptions } from "./guard.ts";
export { dynamodbGuard } from "./guard.ts";
export type { DynamoIdempotentOptions } from "./idempotent.ts";
export { idempotent } from "./idempotent.ts";
export type { DynamoTransaction } from "./transaction.ts";
export { dynamodbTransaction } from "./transaction.ts";
