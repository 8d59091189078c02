import { InvalidArgumentError } from "../../core/errors.ts";
import type { Claim } from "../../core/guard.ts";
import { decideVerify } from "../../core/guard-decision.ts";
import { CONFLICT, optimistically } from "../../runtime/optimistic.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import {
  type Calls,
  callsOf,
  type DynamoClient,
  type DynamoCondition,
  type DynamoItem,
  type DynamoWrite,
  failed,
  reasonsOf,
} from "./client.ts";
import { entryKey, entryOf, stands } from "./expressions.ts";

/**
 * One transaction: reads are strongly consistent and come at once, writes wait for the end and are applied by one
 * TransactWriteItems, together with the guard's conditions. At most 100 parts, the guard's included.
 */
export interface DynamoTransaction {
  /**
   * The item, or `null`. Sees this transaction's own puts and deletes; of what it updates nobody knows the outcome yet.
   * @throws InvalidArgumentError for an item that this transaction updates
   */
  get(input: { readonly TableName: string; readonly Key: DynamoItem }): Promise<DynamoItem | null>;
  put(input: DynamoCondition & { readonly Item: DynamoItem }): void;
  update(
    input: DynamoCondition & { readonly Key: DynamoItem; readonly UpdateExpression: string },
  ): void;
  delete(input: DynamoCondition & { readonly Key: DynamoItem }): void;
  /** A condition on an item that is not written: holds at the commit, or nothing is written. */
  check(
    input: DynamoCondition & { readonly Key: DynamoItem; readonly ConditionExpression: string },
  ): void;
}

/**
 * Runs `fn` and applies what it wrote; nothing when it throws. For writes that a long job makes after its claim: verify
 * in it first. `fn` runs again while other transactions are in the way, for 5 s. Where a condition of its own fails, it
 * rejects with the SDK's own error.
 * @throws StaleTokenError, GuardScopeError, BackendError
 */
export async function dynamodbTransaction<T>(
  client: DynamoClient,
  fn: (tx: DynamoTransaction) => Promise<T>,
): Promise<T> {
  return change(callsOf(client), "transaction", Infinity, fn);
}

interface Part {
  readonly write: DynamoWrite;
  /** What its failed condition means: throws, or begins again. By default it is the user's own affair. */
  readonly refused?: (item: DynamoItem | undefined) => typeof CONFLICT;
}

/** A transaction as the guard sees it. */
export class Transaction implements DynamoTransaction {
  readonly calls: Calls;
  readonly #guards: Part[] = [];
  readonly #parts: Part[] = [];
  /** What a table's keys consist of, as far as this transaction has been told. */
  readonly #keyNames = new Map<string, readonly string[]>();
  #ended = false;

  constructor(calls: Calls) {
    this.calls = calls;
  }

  async get({
    TableName,
    Key,
  }: {
    readonly TableName: string;
    readonly Key: DynamoItem;
  }): Promise<DynamoItem | null> {
    this.#check();
    this.#keyNames.set(TableName, Object.keys(Key));
    const own = this.#own(TableName, Key);
    if (own !== undefined) return own;
    return (await read(this.calls, TableName, Key)) ?? null;
  }

  put(input: DynamoCondition & { readonly Item: DynamoItem }): void {
    this.add({ write: { Put: input } });
  }

  update(
    input: DynamoCondition & { readonly Key: DynamoItem; readonly UpdateExpression: string },
  ): void {
    this.add({ write: { Update: input } });
  }

  delete(input: DynamoCondition & { readonly Key: DynamoItem }): void {
    this.add({ write: { Delete: input } });
  }

  check(
    input: DynamoCondition & { readonly Key: DynamoItem; readonly ConditionExpression: string },
  ): void {
    this.add({ write: { ConditionCheck: input } });
  }

  /** An item is written once in a transaction: a later put or delete takes the place of an earlier one. */
  add(part: Part): void {
    this.#check();
    const [table, item] = placeOf(part.write);
    if (!("Put" in part.write)) this.#keyNames.set(table, Object.keys(item));
    const before = this.#parts.findIndex(({ write }) => {
      const [otherTable, other] = placeOf(write);
      return otherTable === table && this.#same(table, item, other);
    });
    const old = this.#parts[before];
    if (old === undefined) this.#parts.push(part);
    else if (!("Update" in part.write) && !("ConditionExpression" in Object.values(old.write)[0]))
      this.#parts[before] = part;
    else
      throw new InvalidArgumentError(
        "Expected one write per item: DynamoDB takes no item twice in a transaction.",
      );
  }

  /** The commit passes only while these entries have this pair. */
  require(table: string, list: readonly string[], claim: Claim): void {
    this.#check();
    for (const resource of list) {
      const write = stands(table, resource, claim, systemClock.wall());
      const known = this.#guards.some((guard) => samePlace(guard.write, write));
      if (known) continue;
      this.#guards.push({
        write,
        refused: (item) => {
          decideVerify(resource, entryOf(item), claim);
          return CONFLICT;
        },
      });
    }
  }

  async entry(table: string, resource: string): Promise<Claim | null> {
    this.#check();
    return entryOf(await read(this.calls, table, entryKey(resource)));
  }

  end(): void {
    this.#ended = true;
  }

  /** @throws StaleTokenError, GuardScopeError, BackendError, and the SDK's error when a condition of the user failed */
  async commit(): Promise<"committed" | "conflict"> {
    this.end();
    const parts = [...this.#guards, ...this.#parts];
    if (parts.length === 0) return "committed";
    try {
      await this.calls.transactWriteItems({
        TransactItems: parts.map(({ write }) => write),
        // The SDK's own retries are the same transaction to DynamoDB.
        ClientRequestToken: Buffer.from(systemRandom.bytes(24)).toString("base64url"),
      });
      return "committed";
    } catch (error) {
      const reasons = reasonsOf(error);
      if (reasons === null) throw failed("commit", error);
      let own = false;
      for (const [i, part] of parts.entries()) {
        const reason = reasons[i];
        if (reason?.Code !== "ConditionalCheckFailed") continue;
        if (part.refused === undefined) own = true;
        else part.refused(reason.Item);
      }
      if (own) throw error;
      return isPassing(reasons) ? "conflict" : refuseRest(error);
    }
  }

  /** Whether two items have one key. Of puts alone nobody knows what their key is: then DynamoDB refuses the second. */
  #same(table: string, one: DynamoItem, other: DynamoItem): boolean {
    const names = this.#keyNames.get(table);
    if (names === undefined) return within(one, other) && within(other, one);
    return names.every((name) => JSON.stringify(one[name]) === JSON.stringify(other[name]));
  }

  #own(table: string, key: DynamoItem): DynamoItem | null | undefined {
    for (const { write } of this.#parts) {
      const [of, item] = placeOf(write);
      if (of !== table || !within(key, item)) continue;
      if ("Put" in write) return write.Put.Item;
      if ("Delete" in write) return null;
      if ("Update" in write)
        throw new InvalidArgumentError(
          "Expected to read an item before it is updated: the outcome is known at the commit.",
        );
    }
    return undefined;
  }

  #check(): void {
    if (this.#ended)
      throw new InvalidArgumentError("Expected an open transaction: this one has ended.");
  }
}

/** The transaction behind what a user passes. @throws InvalidArgumentError for anything else */
export function transactionOf(tx: DynamoTransaction): Transaction {
  if (tx instanceof Transaction) return tx;
  throw new InvalidArgumentError("Expected a transaction of this guard.");
}

/** Runs `fn` and commits, again from the start while others are in the way. */
export async function change<T>(
  calls: Calls,
  operation: string,
  limitMs: number,
  fn: (tx: Transaction) => Promise<T>,
): Promise<T> {
  return optimistically(operation, limitMs, async () => {
    const tx = new Transaction(calls);
    let result: T;
    try {
      result = await fn(tx);
    } finally {
      tx.end();
    }
    return (await tx.commit()) === "conflict" ? CONFLICT : result;
  });
}

/** A strongly consistent read. */
export async function read(
  calls: Calls,
  table: string,
  key: DynamoItem,
): Promise<DynamoItem | undefined> {
  try {
    return (await calls.getItem({ TableName: table, Key: key, ConsistentRead: true })).Item;
  } catch (error) {
    throw failed("read", error);
  }
}

const PASSING = [
  "None",
  "ConditionalCheckFailed",
  "TransactionConflict",
  "ThrottlingError",
  "ProvisionedThroughputExceeded",
];

/** Whether the same transaction may get through when it is tried again. */
export function isPassing(reasons: readonly { readonly Code?: string | undefined }[]): boolean {
  return reasons.every(({ Code = "None" }) => PASSING.includes(Code));
}

function refuseRest(error: unknown): never {
  throw failed("commit", error);
}

function placeOf(write: DynamoWrite): readonly [table: string, item: DynamoItem] {
  if ("Put" in write) return [write.Put.TableName, write.Put.Item];
  if ("Update" in write) return [write.Update.TableName, write.Update.Key];
  if ("Delete" in write) return [write.Delete.TableName, write.Delete.Key];
  return [write.ConditionCheck.TableName, write.ConditionCheck.Key];
}

function samePlace(a: DynamoWrite, b: DynamoWrite): boolean {
  const [[table, key], [otherTable, other]] = [placeOf(a), placeOf(b)];
  return table === otherTable && within(key, other);
}

/** Whether an item has all the attributes of a key. */
function within(key: DynamoItem, item: DynamoItem): boolean {
  return Object.entries(key).every(
    ([name, value]) => JSON.stringify(item[name]) === JSON.stringify(value),
  );
}
