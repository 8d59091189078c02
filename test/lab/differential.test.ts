import { afterAll, expect, it } from "vitest";
import type { Backend, Busy } from "../../src/core/driver.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { loadClient, type SqliteDatabase } from "../../src/drivers/sqlite/client.ts";
import { sqliteDriverOn } from "../../src/drivers/sqlite/driver.ts";
import type { Sharing } from "../../src/drivers/sqlite/file.ts";
import { SYSTEM } from "../../src/drivers/sqlite/system.ts";
import { SqliteFile } from "../../src/lab/servers/sqlite-file.ts";
import { MODEL } from "../../src/lab/servers/sqlite-statements.ts";
import type { Model } from "../../src/lab/servers/sqlite-tables.ts";
import { World } from "../../src/lab/sim/world.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { SOAK, size } from "../fixtures/soak.ts";
import { ask, context, newPath } from "../fixtures/sqlite.ts";
import { type Call, callsOf, PROCESSES, perform } from "./calls.ts";

const CALLS = 700;
const SEEDS = size(3, 300);

const open: Backend[] = [];
afterAll(async () => {
  for (const backend of open) await backend.close();
});

/** Runs every statement on the real file and on the model, and compares what they answer. */
function twin(real: SqliteDatabase, model: SqliteDatabase): SqliteDatabase {
  const compare = (text: string, args: unknown, expected: unknown, got: unknown): void => {
    const [left, right] = [shown(expected, expected), shown(expected, got)];
    if (left !== right) throw new Mismatch(`${text} with ${json(args)}: ${left}, model: ${right}`);
  };
  return {
    prepare: (text) => {
      const [left, right] = [real.prepare(text), model.prepare(text)];
      const isSetting = text.startsWith("PRAGMA");
      return {
        get: (args) => {
          const [expected, got] = [left.get(args), right.get(args)];
          if (!isSetting) compare(text, args, expected, got);
          return expected;
        },
        all: (args) => {
          const [expected, got] = [left.all(args), right.all(args)];
          if (!isSetting) compare(text, args, expected, got);
          return expected;
        },
        run: (args) => {
          const [expected, got] = [left.run(args), right.run(args)];
          compare(text, args, Number(expected.changes), Number(got.changes));
          return expected;
        },
      };
    },
    exec: (text) => {
      real.exec(text);
      model.exec(text);
    },
    close: () => {
      real.close();
      model.close();
    },
  };
}

/** Model and real thing do not answer alike. */
class Mismatch extends Error {}

function json(value: unknown): string {
  const text: unknown = JSON.stringify(value, (_key, each: unknown) =>
    typeof each === "bigint" ? each.toString() : each,
  );
  return typeof text === "string" ? text : "none";
}

/** The columns of `like` alone, and rows in an order of their own where the statement promises none. */
function shown(like: unknown, value: unknown): string {
  if (Array.isArray(value) && Array.isArray(like)) {
    const [first] = like as unknown[];
    return json((value as unknown[]).map((row) => shown(first ?? row, row)).sort());
  }
  if (typeof value !== "object" || value === null || typeof like !== "object" || like === null)
    return json(value);
  // libsql adds how long it took.
  const columns = Object.keys(like).filter((column) => column !== "_metadata");
  return json(columns.map((column) => [column, Reflect.get(value, column) as unknown]));
}

/** One lock file and its model. */
interface Pair {
  readonly path: string;
  readonly file: SqliteFile;
  /** Names of the statements that were compared. */
  readonly seen: Set<string>;
}

function pairOf(model: Readonly<Record<string, Model>> = MODEL): Pair {
  const seen = new Set<string>();
  const noted = Object.entries(model).map(([name, run]): [string, Model] => [
    name,
    (tables, args) => {
      seen.add(name);
      return run(tables, args);
    },
  ]);
  return { path: newPath(), file: new SqliteFile(Object.fromEntries(noted)), seen };
}

/** A driver in each process of one boot, on one real file and one model of it. */
async function boot(
  { path, file }: Pair,
  clock: FakeClock,
  { bootId, sharing }: { bootId: string; sharing: Sharing },
): Promise<Backend[]> {
  const { open: openReal } = await loadClient();
  const process = new World({ seed: 1 }).start("P");
  const system = {
    ...SYSTEM,
    localFileSystem: () => ({ name: "made up", sharing }),
    load: async () => ({
      name: "twin",
      open: (at: string) =>
        twin(
          openReal(at),
          file.connect(process, () => undefined),
        ),
    }),
  };
  const backends: Backend[] = [];
  for (let n = 0; n < PROCESSES; n += 1)
    backends.push(
      await sqliteDriverOn(system, path).open(context(clock, `p${n}`, { host: { bootId } })),
    );
  open.push(...backends);
  return backends;
}

/** A trace over three boots of a host, the second of them on a file system that others may share. */
async function play(seed: number, pair: Pair, count = CALLS): Promise<void> {
  const clock = new FakeClock();
  const calls = callsOf(seed, count);
  const third = Math.ceil(count / 3);
  for (const [n, sharing] of (["local", "unknown", "local"] as const).entries()) {
    const backends = await boot(pair, clock, { bootId: `boot-${n}`, sharing });
    for (const call of calls.slice(n * third, (n + 1) * third))
      await perform(call, backends, clock);
    for (const backend of backends) await backend.close();
  }
}

it("the model of SQLite answers as SQLite does, statement by statement", {
  timeout: SOAK ? 3_600_000 : 60_000,
}, async () => {
  const seen = new Set<string>();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const pair = pairOf();
    await play(seed, pair);
    for (const name of pair.seen) seen.add(name);
  }
  // Who has no boot id asks the one, and a process that opens after another died the other: test/integration has both.
  const unasked = Object.keys(MODEL).filter((name) => !seen.has(name));
  expect(unasked).toEqual(["waitsFor", "inUse"]);
});

const row = (outcome: ReturnType<Model>): Record<string, unknown> =>
  (typeof outcome === "number" ? {} : outcome[0]) as Record<string, unknown>;

/** Models that are wrong in one statement. */
const WRONG: Readonly<Record<string, Readonly<Record<string, Model>>>> = {
  "a grant ignores tombstones": {
    grantIdle: (tables, args) => MODEL["grantIdle"]!(tables, { ...args, now: 1e12 }),
  },
  "a grant forgets the counter": {
    grantIdle: (tables, args) => {
      const lock = tables.get("locks", String(args["key"]));
      if (lock?.state === 0) tables.put("locks", lock.key, { ...lock, counter: 0n });
      return MODEL["grantIdle"]!(tables, args);
    },
  },
  "a renewal ignores that the lease is over": {
    renewSole: (tables, args) => MODEL["renewSole"]!(tables, { ...args, now: 0 }),
  },
  "a release frees a name that others wait for": {
    releaseSole: (tables, args) => {
      const lock = tables.get("locks", String(args["key"]));
      if (lock?.state === 2) tables.put("locks", lock.key, { ...lock, state: 1 });
      return MODEL["releaseSole"]!(tables, args);
    },
  },
  "missed offers stand": { missOffers: () => 0 },
  "the dead count as those ahead": {
    ahead: (tables, args) => MODEL["ahead"]!(tables, { ...args, now: 0 }),
  },
  "an offer goes to one more than there is room for": {
    offerHead: (tables, args) =>
      MODEL["offerHead"]!(tables, { ...args, slots: Number(args["slots"]) + 1 }),
  },
  "a lock-delay ends with its lease": {
    shareSums: (tables, args) => {
      const sums = row(MODEL["shareSums"]!(tables, args));
      return [{ ...sums, latest: sums["expires"] }];
    },
  },
  "a release forgets a revocation": {
    bury: (tables, args) => {
      const grant = String(args["grant"]);
      const tomb = tables.get("tombs", grant);
      if (tomb !== undefined) tables.put("tombs", grant, { ...tomb, kind: "released" });
      return MODEL["bury"]!(tables, args);
    },
  },
  "a boot forgets who never released": {
    voidLocks: (tables, args) => {
      const count = MODEL["voidLocks"]!(tables, args);
      for (const lock of [...tables.all("locks")])
        tables.put("locks", lock.key, { ...lock, abandoned: 0 });
      return count;
    },
  },
  "a boot of a shared file keeps a lease for its ttl alone": {
    adoptLocks: (tables, args) =>
      MODEL["adoptLocks"]!(tables, { ...args, wall: Number(args["wall"]) + 150 }),
  },
};

it.each(Object.entries(WRONG))("a wrong model is rejected: %s", async (_what, wrong) => {
  const rejected = async (): Promise<void> => {
    for (let seed = 1; seed <= 6; seed += 1) await play(seed, pairOf({ ...MODEL, ...wrong }), 600);
  };
  await expect(rejected()).rejects.toThrow(/model: /);
});

/**
 * The part of a call in which stores agree: one raises a counter for all names, the other for one; and who of several
 * waiters that were silent is next is each one's own.
 */
function common(call: Call): Call {
  if (call.do === "attempt") {
    const { name, mode, permits, grantId, holder, ttlMs, lockDelayMs, tokens } = call.ask;
    const terms = { name, mode, permits, grantId, holder, ttlMs, lockDelayMs, tokens };
    return { ...call, ask: { ...terms, join: "no" } };
  }
  if (call.do !== "release") return call;
  const refs = call.refs.map(({ name, mode, grantId, ttlMs, lockDelayMs }) => ({
    name,
    mode,
    grantId,
    ttlMs,
    lockDelayMs,
  }));
  return { ...call, refs };
}

/** What of an answer two stores must agree in: how long a row is remembered, and when to poll, is each one's own. */
function agreed(answer: unknown): string {
  return json(answer)
    .replaceAll(/"(askAgainMs|keepEntryMs)":[^,}]*,?/g, "")
    .replaceAll(/"(previousToken|takenOver|cursor|holder)":("[^"]*"|null|true|false),?/g, "");
}

it("the memory driver and the SQLite driver answer calls that do not queue alike", async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const [left, right] = [new FakeClock(), new FakeClock()];
    const driver = memoryDriver();
    const memory = await Promise.all(
      Array.from({ length: PROCESSES }, async (_, n) => driver.open(context(left, `p${n}`))),
    );
    const sqlite = await boot(pairOf(), right, { bootId: "boot", sharing: "local" });
    for (const [n, call] of callsOf(seed, CALLS).entries()) {
      // In memory nobody else could be given a lease; and what people are shown of a name that is free is each store's own.
      if (call.do === "exchange" || call.do === "inspect") continue;
      const same = common(call);
      const [a, b] = [await perform(same, memory, left), await perform(same, sqlite, right)];
      expect([n, same, agreed(b)]).toEqual([n, same, agreed(a)]);
    }
  }
});

// Found by comparing the two stores: behind a writer that waits for readers, the file said "ask again in 1 ms".
it.each(["memory", "sqlite"] as const)(
  "%s tells a reader behind a waiting writer to ask when the readers before it are gone",
  async (store) => {
    const clock = new FakeClock();
    const [backend] =
      store === "memory"
        ? [await memoryDriver().open(context(clock, "p0"))]
        : await boot(pairOf(), clock, { bootId: "boot", sharing: "local" });
    const io = { timeoutMs: 1000, signal: new AbortController().signal };
    const terms = { ttlMs: 10_000, join: "yes" } as const;
    await backend!.attempt(ask("a", "reader", { ...terms, mode: "shared" }), io);
    await backend!.attempt(ask("a", "writer", terms), io);
    const answer = await backend!.attempt(ask("a", "late", { ...terms, mode: "shared" }), io);
    expect(answer).toMatchObject({ kind: "busy", blockedBy: "queue" });
    expect((answer as Busy).askAgainMs).toBeGreaterThanOrEqual(10_000);
  },
);
