import {
  BackendConfigError,
  type BackendError,
  BackendUnavailableError,
  InvalidArgumentError,
} from "../../core/errors.ts";

/** A value as the low-level API spells it: one of these fields. */
export interface DynamoValue {
  readonly S?: string;
  readonly N?: string;
  readonly B?: Uint8Array;
  readonly BOOL?: boolean;
  readonly NULL?: boolean;
  readonly L?: readonly DynamoValue[];
  readonly M?: DynamoItem;
  readonly SS?: readonly string[];
  readonly NS?: readonly string[];
  readonly BS?: readonly Uint8Array[];
}

/** An item, or a key. */
export type DynamoItem = Readonly<Record<string, DynamoValue>>;

/** A client of the AWS SDK with its operations as methods: `new DynamoDB({ … })` of `@aws-sdk/client-dynamodb`. */
export interface DynamoClient {
  getItem(input: {
    TableName: string | undefined;
    Key: Record<string, never> | undefined;
    ConsistentRead?: boolean;
  }): Promise<{ readonly Item?: DynamoItem | undefined }>;
  updateItem(input: never): Promise<unknown>;
  deleteItem(input: never): Promise<unknown>;
  transactWriteItems(input: never): Promise<unknown>;
  scan(input: never): Promise<DynamoPage>;
  describeTable(input: never): Promise<DynamoDescription>;
}

/** What a scan finds. */
export interface DynamoPage {
  readonly Items?: readonly DynamoItem[] | undefined;
  readonly LastEvaluatedKey?: DynamoItem | undefined;
}

/** What is known of a table. */
export interface DynamoDescription {
  readonly Table?:
    | {
        readonly KeySchema?: readonly { readonly AttributeName?: string | undefined }[] | undefined;
        readonly Replicas?: readonly unknown[] | undefined;
        readonly MultiRegionConsistency?: string | undefined;
      }
    | undefined;
}

/** What every write may have. */
export interface DynamoCondition {
  readonly TableName: string;
  readonly ConditionExpression?: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: DynamoItem;
  readonly ReturnValuesOnConditionCheckFailure?: "ALL_OLD" | "NONE";
}

/** One part of a write transaction. */
export type DynamoWrite =
  | { readonly Put: DynamoCondition & { readonly Item: DynamoItem } }
  | {
      readonly Update: DynamoCondition & {
        readonly Key: DynamoItem;
        readonly UpdateExpression: string;
      };
    }
  | { readonly Delete: DynamoCondition & { readonly Key: DynamoItem } }
  | {
      readonly ConditionCheck: DynamoCondition & {
        readonly Key: DynamoItem;
        readonly ConditionExpression: string;
      };
    };

/** Why one part of a transaction was refused. */
export interface Reason {
  readonly Code?: string | undefined;
  readonly Item?: DynamoItem | undefined;
}

/** The calls as they are really made: the SDK's own declarations are wider in places and narrower in others. */
export interface Calls {
  getItem(input: object): Promise<{ readonly Item?: DynamoItem | undefined }>;
  updateItem(input: object): Promise<unknown>;
  deleteItem(input: object): Promise<unknown>;
  transactWriteItems(input: object): Promise<unknown>;
  scan(input: object): Promise<DynamoPage>;
  describeTable(input: object): Promise<DynamoDescription>;
}

/** @throws InvalidArgumentError for a client without methods */
export function callsOf(client: DynamoClient): Calls {
  if (typeof (client as Partial<DynamoClient> | null)?.transactWriteItems !== "function")
    throw new InvalidArgumentError(
      "Expected a client with its operations as methods: `new DynamoDB(…)`, not `new DynamoDBClient(…)`.",
    );
  return client;
}

/** The name that the SDK gives to an error. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "";
}

/** The reasons of a cancelled transaction, one per part; `null` for any other error. */
export function reasonsOf(error: unknown): readonly Reason[] | null {
  if (nameOf(error) !== "TransactionCanceledException") return null;
  return (error as { readonly CancellationReasons?: readonly Reason[] }).CancellationReasons ?? [];
}

const THROTTLED = [
  "ProvisionedThroughputExceededException",
  "RequestLimitExceeded",
  "ThrottlingException",
];

/** What a failed call means. A request without an answer may or may not have been applied. */
export function failed(operation: string, cause: unknown): BackendError {
  const said = `DynamoDB failed during ${operation}: ${cause instanceof Error ? cause.message : ""}`;
  if (THROTTLED.includes(nameOf(cause)))
    return new BackendUnavailableError(said, { operation, outcome: "not-applied", cause });
  const status = (cause as { readonly $metadata?: { readonly httpStatusCode?: number } } | null)
    ?.$metadata?.httpStatusCode;
  if (status !== undefined && status >= 400 && status < 500)
    return new BackendConfigError(said, { operation, outcome: "not-applied", cause });
  return new BackendUnavailableError(said, { operation, outcome: "unknown", cause });
}
