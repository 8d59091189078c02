/*
 * A guard over DynamoDB.
 *
 * State: one item per resource, (token, grant id, scope, last use), and one per scope with the floor that missing items
 * inherit, in a table of the guard's own; the guarded data may be in any table of the same region and account.
 * Atomic step: TransactWriteItems. A claim reads the entries, decides, and writes them under the condition that they are
 * still as they were read. A verified write is one transaction with the condition that each entry has the holder's pair:
 *   A: verify, pause        B: claim, read        A: its transaction finds B's pair and writes nothing
 * That condition *updates* the entry, so that a claim at the same moment conflicts with it. Why pairs never come back:
 * see `decideClaim`. What breaks it: writes that pass the guard by; reads without ConsistentRead or from an index; a
 * table that is replicated last-writer-wins, which is refused; a restored table without its data, or the reverse.
 */
import { BackendConfigError, InvalidArgumentError } from "../../core/errors.ts";
import {
  type Adoption,
  type Credential,
  type Guard,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  resourceList,
} from "../../core/guard.ts";
import {
  checkAdoption,
  decideAdoption,
  decideClaim,
  decideVerify,
  purgeTime,
} from "../../core/guard-decision.ts";
import { checkName } from "../../core/lock-name.ts";
import { CONFLICT, optimistically } from "../../runtime/optimistic.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import {
  type Calls,
  callsOf,
  type DynamoClient,
  type DynamoDescription,
  type DynamoWrite,
  failed,
  nameOf,
  reasonsOf,
} from "./client.ts";
import {
  deletesUnused,
  dynamodbGuardTable,
  entryKey,
  entryOf,
  floorKey,
  floorStands,
  installs,
  raisesFloor,
  scansUnused,
} from "./expressions.ts";
import { change, type DynamoTransaction, isPassing, read, transactionOf } from "./transaction.ts";

/** Options of a DynamoDB guard. */
export interface DynamoGuardOptions extends GuardOptions {
  /** Where the entries are; `"ringfence_guard"` by default. See `dynamodbGuardTable`. */
  readonly table?: string;
  /** Believes that the table is right, without the right to describe it; `false` by default. */
  readonly trustSettings?: boolean;
}

/** A guard over clients of `@aws-sdk/client-dynamodb`. */
export type DynamoGuard = Guard<DynamoClient, DynamoTransaction>;

/**
 * Makes a guard over DynamoDB.
 * @throws InvalidArgumentError for impossible options
 */
export function dynamodbGuard(options: DynamoGuardOptions = {}): DynamoGuard {
  const keys = guardKeys(options);
  const { table = "ringfence_guard", trustSettings = false } = options;
  if (typeof table !== "string" || table === "")
    throw new InvalidArgumentError("Expected `table` to be the name of a table.");
  const probed = new WeakSet<DynamoClient>();
  const presented = (credential: Credential): Presentation =>
    presentationOf(credential, keys, systemMac);
  const ready = async (client: DynamoClient): Promise<Calls> => {
    const calls = callsOf(client);
    if (!trustSettings && !probed.has(client)) await probe(calls, table);
    probed.add(client);
    return calls;
  };
  const claim = async (
    client: DynamoClient,
    list: readonly string[],
    mine: Presentation,
  ): Promise<Calls> => {
    mine.checkDeadline();
    const calls = await ready(client);
    await optimistically("claim", mine.remainingMs(), async () => {
      mine.checkDeadline();
      return claimAll(calls, table, list, mine);
    });
    return calls;
  };
  return {
    async run(client, resources, credential, fn) {
      const [list, mine] = [resourceList(resources), presented(credential)];
      if (typeof fn !== "function")
        throw new InvalidArgumentError("Expected the body of `run` to be a function.");
      const calls = await claim(client, list, mine);
      return change(calls, "run", mine.remainingMs(), async (tx) => {
        tx.require(table, list, mine);
        return fn(tx);
      });
    },
    async claim(client, resources, credential) {
      await claim(client, resourceList(resources), presented(credential));
    },
    async verify(transaction, resources, credential) {
      const [list, mine] = [resourceList(resources), presented(credential)];
      const tx = transactionOf(transaction);
      mine.checkDeadline();
      for (const resource of list) decideVerify(resource, await tx.entry(table, resource), mine);
      tx.require(table, list, mine);
    },
    async adopt(client, resource, adoption) {
      checkName(resource, "resource");
      checkAdoption(adoption);
      const calls = await ready(client);
      await optimistically("adopt", Infinity, async () => adopt(calls, table, resource, adoption));
    },
    async purge(client, before) {
      const time = purgeTime(before);
      return purge(await ready(client), table, time);
    },
  };
}

async function floorOf(calls: Calls, table: string, scope: string): Promise<bigint> {
  const item = await read(calls, table, floorKey(scope));
  return BigInt(item?.["token"]?.N ?? "0");
}

/** Writes under the conditions that what was read is still so. */
async function write(
  calls: Calls,
  operation: string,
  writes: readonly DynamoWrite[],
): Promise<null | typeof CONFLICT> {
  try {
    await calls.transactWriteItems({ TransactItems: writes });
    return null;
  } catch (error) {
    const reasons = reasonsOf(error);
    if (reasons !== null && isPassing(reasons)) return CONFLICT;
    throw failed(operation, error);
  }
}

async function claimAll(
  calls: Calls,
  table: string,
  list: readonly string[],
  mine: Presentation,
): Promise<null | typeof CONFLICT> {
  const entries = await Promise.all(
    list.map(async (resource) => entryOf(await read(calls, table, entryKey(resource)))),
  );
  const missing = entries.includes(null);
  const floor = missing ? await floorOf(calls, table, mine.scope) : 0n;
  for (const [i, resource] of list.entries())
    decideClaim(resource, { entry: entries[i] ?? null, floor }, mine);
  const nowMs = systemClock.wall();
  return write(calls, "claim", [
    ...list.map((resource, i) => installs(table, resource, entries[i] ?? null, mine, nowMs)),
    ...(missing ? [floorStands(table, mine.scope, floor)] : []),
  ]);
}

async function adopt(
  calls: Calls,
  table: string,
  resource: string,
  adoption: Adoption,
): Promise<null | typeof CONFLICT> {
  const entry = entryOf(await read(calls, table, entryKey(resource)));
  const floor = await floorOf(calls, table, adoption.to);
  const move = decideAdoption(resource, { entry, floor }, adoption);
  if (move === null) return null;
  // The floor first: should we stop between the two, a floor too many harms nobody.
  await raise(calls, table, adoption.from, move.leftFloor);
  return write(calls, "adopt", [
    installs(table, resource, entry, move.entry, systemClock.wall()),
    floorStands(table, adoption.to, floor),
  ]);
}

/** Raises the floor of a scope, where it is lower. */
async function raise(calls: Calls, table: string, scope: string, floor: bigint): Promise<void> {
  if (floor === 0n) return;
  try {
    await calls.updateItem(raisesFloor(table, scope, floor));
  } catch (error) {
    if (nameOf(error) !== "ConditionalCheckFailedException") throw failed("raise", error);
  }
}

async function purge(calls: Calls, table: string, beforeMs: number): Promise<number> {
  let gone = 0;
  let from: object = {};
  for (;;) {
    const page = await calls
      .scan({ ...scansUnused(table, beforeMs), ...from })
      .catch((error: unknown) => {
        throw failed("purge", error);
      });
    for (const item of page.Items ?? []) {
      const entry = entryOf(item);
      if (entry === null) continue;
      await raise(calls, table, entry.scope, entry.token);
      if (await removed(calls, deletesUnused(table, item["pk"]?.S ?? "", entry))) gone += 1;
    }
    if (page.LastEvaluatedKey === undefined) return gone;
    from = { ExclusiveStartKey: page.LastEvaluatedKey };
  }
}

/** Whether it was deleted; not when it was used meanwhile. */
async function removed(calls: Calls, input: object): Promise<boolean> {
  try {
    await calls.deleteItem(input);
    return true;
  } catch (error) {
    if (nameOf(error) === "ConditionalCheckFailedException") return false;
    throw failed("purge", error);
  }
}

/** @throws BackendConfigError for a table that is missing, has another key, or decides by the last writer */
async function probe(calls: Calls, table: string): Promise<void> {
  const refuse = (why: string, cause?: unknown): BackendConfigError =>
    new BackendConfigError(why, { operation: "open", outcome: "not-applied", cause });
  let found: DynamoDescription["Table"];
  try {
    found = (await calls.describeTable({ TableName: table })).Table;
  } catch (error) {
    if (nameOf(error) !== "ResourceNotFoundException") throw failed("open", error);
    const how = JSON.stringify(dynamodbGuardTable(table));
    throw refuse(
      `The guard's table "${table}" is missing. Create it with createTable(${how})`,
      error,
    );
  }
  const keys = found?.KeySchema?.map((part) => part.AttributeName) ?? [];
  if (keys.length !== 1 || keys[0] !== "pk")
    throw refuse(`Expected the table "${table}" to have the partition key "pk" and no sort key.`);
  if ((found?.Replicas ?? []).length > 0 && found?.MultiRegionConsistency !== "STRONG")
    throw refuse(
      `The table "${table}" is replicated between regions, and the last writer wins: it cannot guard anything.`,
    );
}
