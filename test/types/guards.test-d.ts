import { DynamoDB } from "@aws-sdk/client-dynamodb";
import type { Redis } from "ioredis";
import type { createClient } from "redis";
import type { MemoryCapabilities } from "../../src/drivers/memory/index.ts";
import {
  type DynamoTransaction,
  dynamodbGuard,
  dynamodbTransaction,
  idempotent,
} from "../../src/guards/dynamodb/index.ts";
import { fencedFetch, httpGuard } from "../../src/guards/http/index.ts";
import { type MemoryTransaction, memoryGuard, memoryStore } from "../../src/guards/memory/index.ts";
import { type RedisTransaction, redisGuard, redisStore } from "../../src/guards/redis/index.ts";
import { s3Guard, s3Store } from "../../src/guards/s3/index.ts";
import { type Capabilities, createLockManager, type Driver } from "../../src/index.ts";

interface EfficiencyCapabilities extends Capabilities {
  readonly fencing: "none";
  readonly waiting: "poll";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: "exclusive";
}
declare const memory: Driver<MemoryCapabilities>;
declare const cheap: Driver<EfficiencyCapabilities>;
declare const unknown: Driver; // connect(url)
declare const ioredis: Redis;
declare const nodeRedis: ReturnType<typeof createClient>;

const good = await createLockManager(memory).acquire("a");
const shared = await createLockManager(memory).acquire("a", { mode: "shared" });
const permit = await createLockManager(memory).semaphore("a", { permits: 2 }).acquire();
const none = await createLockManager(cheap).acquire("a");
const maybe = await createLockManager(unknown).acquire("a");
const required = createLockManager(unknown, { require: { fencing: "volatile" } });
const known = await required.acquire("a");

// Redis, with both libraries.
const redis = redisGuard();
const keys = redisStore(ioredis, "a");
await redis.set(redisStore(nodeRedis, "a"), "a", good, "k", "v");
await redis.hset(keys, "a", known, "k", { f: "v" });
await redis.eval(keys, "a", good.sequencer, { script: "return 1" });
// @ts-expect-error there is no token to write with
await redis.set(keys, "a", none, "k", "v");
// @ts-expect-error a shared lease never claims
await redis.claim(keys, "a", shared);
// @ts-expect-error nobody knows whether it has a token
await redis.run(keys, "a", maybe, async () => 1);
// @ts-expect-error a client is not a store: what is claimed together has to be kept together
await redis.claim(ioredis, "a", good);

// An object store.
const objects = s3Store({ url: "http://127.0.0.1/bucket" });
const updated: string = await s3Guard().update(objects, "a", good, (now) => `${now ?? ""}x`);
// @ts-expect-error a permit never claims
await s3Guard().claim(objects, "a", permit);
// @ts-expect-error neither a client nor a URL
s3Store({ bucket: "b" });

// DynamoDB, with the SDK's own client.
const dynamo = new DynamoDB({});
const paid: number = await dynamodbTransaction(dynamo, async (tx) => {
  await dynamodbGuard().verify(tx, "a", good);
  tx.put({ TableName: "t", Item: { pk: { S: "a" } } });
  return idempotent(tx, "key", { amount: 5 }, async () => 5);
});
// @ts-expect-error there is no token to claim with
await dynamodbGuard().claim(dynamo, "a", none);
// @ts-expect-error a value says its type
const untyped: Parameters<DynamoTransaction["put"]>[0] = { TableName: "t", Item: { pk: "a" } };

// HTTP: `verify` is as the inner guard's, synchronous or not.
const sync = httpGuard({ guard: memoryGuard(), db: memoryStore() });
const later = httpGuard({ guard: redis, db: keys });
declare const request: object;
declare const inRedis: RedisTransaction;
declare const inMemory: MemoryTransaction;
sync.of(request)?.verify(inMemory);
const verified: Promise<void> | undefined = later.of(request)?.verify(inRedis);
// @ts-expect-error another store's guard does not verify in this transaction
await later.of(request)?.verify(inMemory);
export const send: typeof fetch = fencedFetch(good);
fencedFetch(known.sequencer);
// @ts-expect-error there is no token to send
fencedFetch(none);
// @ts-expect-error a shared lease never claims
fencedFetch(shared);
// @ts-expect-error nobody knows whether it has a token
fencedFetch(maybe);

export const all = [updated, paid, untyped, verified];
