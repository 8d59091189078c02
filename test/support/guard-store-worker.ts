/*
 * One of several processes that increment a counter at a guarded resource under leases of a lock service that cannot be
 * trusted: its leases end after a moment, whatever their holders do, and now and then it gives out numbers again. What a
 * worker is about to write, and what was acknowledged, goes to a log before and after, so that a worker may be killed
 * anywhere.
 */
import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DynamoDB } from "@aws-sdk/client-dynamodb";
import { Redis } from "ioredis";
import Database from "libsql";
import { BackendError, StaleTokenError } from "../../src/core/errors.ts";
import type { Presented } from "../../src/core/guard.ts";
import type { FilesGuard, FilesStore } from "../../src/core/guard-files.ts";
import { writeSequencer } from "../../src/core/sequencer.ts";
import { dynamodbGuard, dynamodbTransaction } from "../../src/guards/dynamodb/index.ts";
import { fileGuard, fileStore } from "../../src/guards/file/index.ts";
import { fencedFetch, staleFrom } from "../../src/guards/http/index.ts";
import { redisGuard, redisStore } from "../../src/guards/redis/index.ts";
import { s3Guard, s3Store } from "../../src/guards/s3/index.ts";
import { isBusy } from "../../src/guards/sqlite/client.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";

/** Which resource. */
export type Kind = "redis" | "s3" | "file" | "sqlite" | "dynamodb" | "http";

/** One stretch of work. */
export interface StoreOrder {
  readonly kind: Kind;
  readonly url: string;
  /** Of this run alone: a tag, prefix, item or document. */
  readonly place: string;
  readonly guarded: boolean;
  /** The lock service, a SQLite file. */
  readonly service: string;
  readonly log: string;
  readonly forMs: number;
  /** How long a lease lasts at most, in milliseconds. */
  readonly leaseMs: number;
}

/** The counter as it is stored. */
export interface Counted {
  readonly value: number;
  readonly version: string;
}

/** One line of the log. */
export type StoreLine =
  | {
      readonly kind: "intent";
      readonly version: string;
      readonly basedOn: string;
      readonly token: string;
      readonly grantId: string;
    }
  | { readonly kind: "accepted"; readonly version: string }
  | { readonly kind: "refused"; readonly step: string };

const SCOPE = "stress".padEnd(27, "-");
const NAME = "counter";
const FIRST: Counted = { value: 0, version: "first" };
/** How often the lock service forgets, and by how many numbers at most. */
const FORGETS = 0.05;
const FORGOTTEN = 3;

const now = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;
const between = (low: number, high: number): number => low + Math.random() * (high - low);
const parsed = (text: string | null | undefined): Counted =>
  text === null || text === undefined || text === "" ? FIRST : (JSON.parse(text) as Counted);

/** The next lease, `null` while another one lasts or somebody stopped has the file locked. */
function acquire(db: Database.Database, leaseMs: number): Presented | null {
  try {
    db.exec("BEGIN IMMEDIATE");
  } catch (error) {
    if (!isBusy(error)) throw error;
    return null;
  }
  try {
    const row = db.prepare("SELECT token, ends_ms AS endsMs FROM service").all()[0] as {
      token: number;
      endsMs: number;
    };
    if (now() < row.endsMs) return null;
    const last = Math.random() < FORGETS ? row.token - Math.ceil(between(0, FORGOTTEN)) : row.token;
    const token = Math.max(1, last + 1);
    const end = now() + between(leaseMs / 6, leaseMs);
    db.prepare("UPDATE service SET token = ?, ends_ms = ?").run(token, end);
    const grantId = randomBytes(20).toString("base64url");
    return { token: BigInt(token), grantId, scope: SCOPE, trust: true };
  } finally {
    db.exec("COMMIT");
  }
}

/** A resource as a worker uses it. */
interface Place {
  claim(lease: Presented): Promise<void>;
  read(lease: Presented | null): Promise<Counted>;
  write(lease: Presented | null, counted: Counted): Promise<void>;
  close(): void;
}

function redisPlace({ url, place }: StoreOrder): Place {
  const client = new Redis(url, { autoResendUnfulfilledCommands: true });
  const [guard, store] = [redisGuard(), redisStore(client, place)];
  return {
    claim: async (lease) => guard.claim(store, NAME, lease),
    read: async () => store.transaction(async (tx) => parsed(await tx.get(NAME))),
    write: async (lease, counted) => {
      const text = JSON.stringify(counted);
      if (lease !== null) await guard.set(store, NAME, lease, NAME, text);
      else
        await store.transaction(async (tx) => {
          tx.set(NAME, text);
        });
    },
    close: () => {
      client.disconnect();
    },
  };
}

/** A store whose files change together. */
function filesPlace<Store extends FilesStore>(guard: FilesGuard<Store>, store: Store): Place {
  return {
    claim: async (lease) => guard.claim(store, NAME, lease),
    read: async () => parsed(await store.readText(NAME)),
    write: async (lease, counted) =>
      store.transaction(async (tx) => {
        if (lease !== null) await guard.verify(tx, NAME, lease);
        tx.write(NAME, JSON.stringify(counted));
      }),
    close: () => undefined,
  };
}

/** A file that a stopped process may keep locked: then nothing is written, and somebody else tries. */
function sqlitePlace({ url, place }: StoreOrder): Place {
  const db = new Database(url, { timeout: 200 });
  const guard = sqliteGuard();
  const text = db.prepare("SELECT text FROM documents WHERE name = ?");
  const put = db.prepare("INSERT OR REPLACE INTO documents VALUES (?, ?)");
  const unlessBusy = async <T>(fn: () => T | Promise<T>): Promise<T> => {
    try {
      return await fn();
    } catch (error) {
      if (!isBusy(error)) throw error;
      const facts = { operation: "write", outcome: "not-applied", cause: error } as const;
      throw new BackendError("somebody else writes", facts);
    }
  };
  return {
    claim: async (lease) => unlessBusy(async () => guard.claim(db, place, lease)),
    read: async () =>
      parsed(await unlessBusy(() => (text.all(place)[0] as { text: string } | undefined)?.text)),
    write: async (lease, counted) => {
      await unlessBusy(async () => {
        if (lease === null) put.run(place, JSON.stringify(counted));
        else await guard.run(db, place, lease, () => put.run(place, JSON.stringify(counted)));
      });
    },
    close: () => {
      db.close();
    },
  };
}

function dynamoPlace({ url, place }: StoreOrder): Place {
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const client = new DynamoDB({ endpoint: url, region: "us-east-1", credentials });
  const guard = dynamodbGuard({ trustSettings: true });
  const key = { TableName: "data", Key: { pk: { S: place } } };
  return {
    claim: async (lease) => guard.claim(client, place, lease),
    read: async () => {
      const { Item } = await client.getItem({ ...key, ConsistentRead: true });
      return parsed(Item?.["value"]?.S);
    },
    write: async (lease, counted) =>
      dynamodbTransaction(client, async (tx) => {
        if (lease !== null) await guard.verify(tx, place, lease);
        const value = { S: JSON.stringify(counted) };
        tx.put({ TableName: "data", Item: { ...key.Key, value } });
      }),
    close: () => {
      client.destroy();
    },
  };
}

/** Servers of the test's, in turns: what one of them has seen, the other one has not. */
function httpPlace({ url, place }: StoreOrder): Place {
  const urls = url.split(" ");
  const at = (): string =>
    `${urls[Math.floor(Math.random() * urls.length)] ?? ""}/documents/${place}`;
  const senderOf = (lease: Presented | null): typeof fetch => {
    if (lease === null) return fetch;
    const name = `documents/${place}`;
    return fencedFetch(writeSequencer({ name, mode: "exclusive", ...lease }, undefined, systemMac));
  };
  const ask = async (lease: Presented | null, init: RequestInit): Promise<string> => {
    const response = await senderOf(lease)(at(), init);
    const stale = await staleFrom(response);
    if (stale !== null) throw stale;
    if (!response.ok)
      throw new BackendError(`answered ${response.status}`, {
        operation: "fetch",
        outcome: "unknown",
      });
    return response.text();
  };
  return {
    // The first request of a grant claims, whatever it asks for.
    claim: async () => undefined,
    read: async (lease) => parsed(await ask(lease, {})),
    write: async (lease, counted) => {
      await ask(lease, {
        method: "PUT",
        body: JSON.stringify(counted),
        headers: { "content-type": "text/plain" },
      });
    },
    close: () => undefined,
  };
}

const PLACES = {
  redis: redisPlace,
  s3: ({ url, place }: StoreOrder) => filesPlace(s3Guard(), s3Store({ url, prefix: `${place}/` })),
  file: ({ url, place }: StoreOrder) => filesPlace(fileGuard(), fileStore(join(url, place))),
  sqlite: sqlitePlace,
  dynamodb: dynamoPlace,
  http: httpPlace,
};

async function work(order: StoreOrder): Promise<void> {
  const { kind, guarded, service, log, forMs, leaseMs } = order;
  const db = new Database(service, { timeout: 20 });
  const place = PLACES[kind](order);
  const note = (line: StoreLine): void => {
    appendFileSync(log, `${JSON.stringify(line)}\n`);
  };
  const end = now() + forMs;
  while (now() < end) {
    const lease = acquire(db, leaseMs);
    if (lease === null) {
      await sleep(between(1, 1 + leaseMs / 3));
      continue;
    }
    try {
      if (guarded) await place.claim(lease);
      const seen = await place.read(guarded ? lease : null);
      await sleep(between(0, leaseMs * 1.3));
      const version = randomBytes(9).toString("base64url");
      const { grantId } = lease;
      note({
        kind: "intent",
        version,
        basedOn: seen.version,
        token: lease.token.toString(),
        grantId,
      });
      await place.write(guarded ? lease : null, { value: seen.value + 1, version });
      note({ kind: "accepted", version });
    } catch (error) {
      if (error instanceof StaleTokenError) note({ kind: "refused", step: error.step });
      // Nobody answered: it may have been applied, and the log has what it would have been.
      else if (!(error instanceof BackendError) && !(error instanceof TypeError)) throw error;
    }
  }
  place.close();
  db.close();
}

process.on("message", (order: StoreOrder) => {
  void work(order).then(() => process.send?.("done"));
});
process.send?.("ready");
