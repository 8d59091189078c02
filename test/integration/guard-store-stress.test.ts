import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "libsql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dynamodbGuardTable } from "../../src/guards/dynamodb/index.ts";
import { fileStore } from "../../src/guards/file/index.ts";
import { httpGuard } from "../../src/guards/http/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { DynamoServer, describeDynamo } from "../fixtures/dynamodb-server.ts";
import { ObjectServer } from "../fixtures/object-server.ts";
import { describeRedis, RedisServer } from "../fixtures/redis-server.ts";
import { size, untilEnough } from "../fixtures/soak.ts";
import { checkAccepted, type Verdict } from "../support/accepted-writes.ts";
import { bundle } from "../support/bundle.ts";
import { temporaryFolder } from "../support/guard-fixtures.ts";
import type { Counted, Kind, StoreLine, StoreOrder } from "../support/guard-store-worker.ts";
import { Documents, FRAMEWORKS } from "../support/http-servers.ts";

const WORKERS = 8;
const FOR_MS = { unguarded: size(500, 10_000), guarded: size(1200, 300_000) };
/** Beyond the work itself: further rounds, and the start of the processes, on a busy machine. */
const TIMEOUT_MS = FOR_MS.guarded + 120_000;
const FIRST = "first";

/** What the log and the final value say together. */
interface Outcome extends Verdict {
  /** Acknowledged writes that are not in the history that led to the final value. */
  readonly overwritten: number;
  /** The writes of that history. */
  readonly writes: number;
  readonly value: number;
  readonly refusedClaims: number;
  readonly refusedWrites: number;
  readonly pauses: number;
  readonly kills: number;
}

const folder = temporaryFolder();
const workers: ChildProcess[] = [];
let worker: Awaited<ReturnType<typeof bundle>> | undefined;
let runs = 0;

beforeAll(async () => {
  worker = await bundle("test/support/guard-store-worker.ts");
  await Promise.all(Array.from({ length: WORKERS }, async () => started()));
}, 90_000);

afterAll(() => {
  for (const child of workers) {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
  }
  worker?.remove();
  folder.remove();
});

async function started(): Promise<ChildProcess> {
  const file = worker?.file ?? "";
  const child = fork(file, { execArgv: [], stdio: ["ignore", "inherit", "inherit", "ipc"] });
  workers.push(child);
  await message(child);
  return child;
}

/** The next message, or `null` when the process was killed. */
async function message(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null, signal: string | null): void => {
      if (signal === "SIGKILL") resolve(null);
      else reject(new Error(`a worker ended with ${String(code)}`));
    };
    child.once("exit", ended);
    child.once("message", (value) => {
      child.off("exit", ended);
      resolve(value);
    });
  });
}

type Where = Pick<StoreOrder, "kind" | "url" | "leaseMs">;

/** Lets the workers work, and again where a busy machine left too little to see; the verdict is on all of it. */
async function run(
  where: Where,
  guarded: boolean,
  read: (place: string) => Promise<string | null>,
  enough: (outcome: Outcome) => boolean,
): Promise<Outcome> {
  const place = `run${(runs += 1)}`;
  const [service, log] = [join(folder.path, `${place}.db`), join(folder.path, `${place}.log`)];
  create(service);
  const forMs = guarded ? FOR_MS.guarded : FOR_MS.unguarded;
  const counts = { pauses: 0, kills: 0 };
  return untilEnough(async () => {
    const order: StoreOrder = { ...where, place, guarded, service, log, forMs };
    const { pauses, kills } = await torment(order);
    counts.pauses += pauses;
    counts.kills += kills;
    return { ...judged(log, await read(place)), ...counts };
  }, enough);
}

/** All workers at once, stopped, continued and killed at random until the time is over. */
async function torment(order: StoreOrder): Promise<{ pauses: number; kills: number }> {
  const end = Date.now() + order.forMs;
  let working = true;
  const counts = { pauses: 0, kills: 0 };
  const busy = new Set<ChildProcess>();
  const occupied = async (child: ChildProcess): Promise<void> => {
    const forMs = end - Date.now();
    if (forMs <= 0) return;
    child.send({ ...order, forMs });
    busy.add(child);
    const done = await message(child);
    busy.delete(child);
    if (done !== null) return;
    workers.splice(workers.indexOf(child), 1);
    await occupied(await started());
  };
  const all = Promise.all([...workers].map(occupied)).finally(() => {
    working = false;
  });
  // Only those at work: one that is starting, or done, has a message to send.
  const some = (): ChildProcess | undefined => [...busy][Math.floor(Math.random() * busy.size)];
  const pausing = async (): Promise<void> => {
    while (working) {
      const child = some();
      child?.kill("SIGSTOP");
      counts.pauses += 1;
      await sleep(2 + Math.random() * Math.min(60, 2 * order.leaseMs));
      child?.kill("SIGCONT");
      await sleep(Math.random() * 10);
    }
  };
  const killing = async (): Promise<void> => {
    while (working) {
      await sleep(200 + Math.random() * 400);
      const child = some();
      if (child === undefined || Date.now() > end) continue;
      child.kill("SIGKILL");
      busy.delete(child);
      counts.kills += 1;
    }
  };
  await Promise.all([all, pausing(), pausing(), killing()]);
  for (const child of workers) child.kill("SIGCONT");
  while (workers.length < WORKERS) await started();
  return counts;
}

function create(file: string): void {
  const db = new Database(file);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;");
  db.exec("CREATE TABLE service (token INTEGER, ends_ms REAL)");
  db.exec("INSERT INTO service VALUES (0, 0)");
  db.close();
}

/** Walks back from the final value: every write names the version that it was based on. */
function judged(log: string, final: string | null): Omit<Outcome, "pauses" | "kills"> {
  const lines = readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line) as StoreLine);
  const intents = new Map(
    lines.flatMap((line) => (line.kind === "intent" ? [[line.version, line] as const] : [])),
  );
  const counted: Counted =
    final === null || final === "" ? { value: 0, version: FIRST } : (JSON.parse(final) as Counted);
  const chain = [];
  const seen = new Set<string>();
  for (let version = counted.version; version !== FIRST; ) {
    const intent = intents.get(version);
    if (intent === undefined || seen.has(version)) throw new Error(`nobody wrote ${version}`);
    seen.add(version);
    chain.unshift({ ...intent, token: BigInt(intent.token) });
    version = intent.basedOn;
  }
  const refused = (step: string): number =>
    lines.filter((line) => line.kind === "refused" && line.step === step).length;
  return {
    ...checkAccepted(FIRST, chain),
    overwritten: lines.filter((line) => line.kind === "accepted" && !seen.has(line.version)).length,
    writes: chain.length,
    value: counted.value,
    refusedClaims: refused("claim"),
    refusedWrites: refused("verify"),
  };
}

function stress(
  kind: Kind,
  leaseMs: number,
  place: { url: () => string; read: (place: string) => Promise<string | null> },
): void {
  it(
    `${kind}: loses updates without the guard, so that the run proves something`,
    async () => {
      const where = { kind, url: place.url(), leaseMs };
      const outcome = await run(where, false, place.read, ({ overwritten }) => overwritten > 0);
      expect(outcome.overwritten).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );

  it(
    `${kind}: loses no update and accepts no stale write with it, under pauses and kills`,
    async () => {
      const where = { kind, url: place.url(), leaseMs };
      const enough = ({ writes, pauses, kills, refusedClaims, refusedWrites }: Outcome): boolean =>
        writes > 3 && pauses > 10 && kills > 0 && refusedClaims + refusedWrites > 0;
      const outcome = await run(where, true, place.read, enough);
      console.log(`guarded, ${kind}: ${JSON.stringify(outcome)}`);
      expect(outcome).toMatchObject({ overwritten: 0, lostUpdates: 0, staleWrites: 0 });
      expect(outcome.value).toBe(outcome.writes);
      expect(enough(outcome)).toBe(true);
    },
    TIMEOUT_MS,
  );
}

describeRedis("guards among processes that are stopped and killed, on Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  stress("redis", 12, {
    url: () => server.url,
    read: async (place) => {
      const reply = await server.command("GET", `{${place}}:counter`);
      return reply.startsWith("$-1") ? null : (reply.split("\r\n")[1] ?? null);
    },
  });
});

describe("guards among processes that are stopped and killed, on an object store", () => {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await ObjectServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  stress("s3", 300, {
    url: () => `${server.endpoint}/bucket`,
    read: async (place) => {
      const manifest = server.objects.get(`/bucket/${place}/manifest`)?.body.toString() ?? "";
      const { files } = JSON.parse(manifest) as { files: [string, string][] };
      const [, file = ""] = files.find(([name]) => name === "counter") ?? [];
      return server.objects.get(`/bucket/${place}/${file}`)?.body.toString() ?? null;
    },
  });
});

describe("guards among processes that are stopped and killed, on the files of one folder", () => {
  const files = (): string => join(folder.path, "files");
  stress("file", 200, {
    url: files,
    read: async (place) => fileStore(join(files(), place)).readText("counter"),
  });
});

describe("guards among processes that are stopped and killed, on SQLite", () => {
  const file = (): string => join(folder.path, "resource.db");
  let db: Database.Database;
  beforeAll(() => {
    db = new Database(file());
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;");
    db.exec("CREATE TABLE documents (name TEXT PRIMARY KEY, text TEXT)");
  });
  afterAll(() => {
    db.close();
  });
  stress("sqlite", 60, {
    url: file,
    read: async (place) => {
      const rows = db.prepare("SELECT text FROM documents WHERE name = ?").all(place);
      return (rows as { text: string }[])[0]?.text ?? null;
    },
  });
});

describeDynamo("guards among processes that are stopped and killed, on DynamoDB", () => {
  let server: DynamoServer;
  beforeAll(async () => {
    server = await DynamoServer.start();
    const client = server.client();
    await client.createTable(dynamodbGuardTable());
    await client.createTable(dynamodbGuardTable("data"));
    client.destroy();
  }, 90_000);
  afterAll(async () => {
    await server.stop();
  });
  stress("dynamodb", 400, {
    url: () => `http://127.0.0.1:${server.port}`,
    read: async (place) => {
      const client = server.client();
      const { Item } = await client.getItem({
        TableName: "data",
        Key: { pk: { S: place } },
        ConsistentRead: true,
      });
      client.destroy();
      return Item?.["value"]?.S ?? null;
    },
  });
});

describe("guards among processes that are stopped and killed, over HTTP", () => {
  const servers: { readonly url: string; close(): Promise<void> }[] = [];
  let db: Database.Database;
  let documents: Documents;
  beforeAll(async () => {
    db = new Database(join(folder.path, "documents.db"));
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;");
    documents = new Documents(db);
    for (const { start } of FRAMEWORKS) {
      const guard = httpGuard({ guard: sqliteGuard(), db });
      servers.push(await start(guard, documents, "never"));
    }
  });
  afterAll(async () => {
    for (const server of servers) await server.close();
    db.close();
  });
  stress("http", 200, {
    url: () => servers.map(({ url }) => url).join(" "),
    read: async (place) => documents.read(place),
  });
});
