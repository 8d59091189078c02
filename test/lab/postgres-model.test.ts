import { type Client, Pool } from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Backend } from "../../src/core/driver.ts";
import { postgresDriverOn } from "../../src/drivers/postgres/driver.ts";
import type { Statement } from "../../src/drivers/sql/statement.ts";
import { postgresGuardSchema } from "../../src/guards/postgres/index.ts";
import { statementsFor } from "../../src/guards/postgres/sql.ts";
import { Access, type Waiting } from "../../src/lab/servers/postgres-access.ts";
import { GUARD_MODEL } from "../../src/lab/servers/postgres-guard.ts";
import { PLAIN, PLAIN_MODEL, PLAIN_SCHEMA } from "../../src/lab/servers/postgres-plain.ts";
import type { Rows, TableName } from "../../src/lab/servers/postgres-rows.ts";
import { MODEL } from "../../src/lab/servers/postgres-statements.ts";
import type { Args, Model } from "../../src/lab/servers/postgres-values.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { prepareTwins, Twin } from "../fixtures/postgres-twin.ts";
import { SOAK, size } from "../fixtures/soak.ts";
import { context } from "../fixtures/sqlite.ts";
import { callsOf, PROCESSES, perform } from "./calls.ts";
import { CHANNEL, interleave, SQL } from "./postgres-traces.ts";

const CALLS = size(200, 700);
const ROUNDS = size(50, 300);
const SEEDS = size(2, 100);

/** Nothing else locks a table, and no checkpoint makes the sequence log its number anew. */
const QUIET = { autovacuum: "off", checkpoint_timeout: "1h", max_wal_size: "1GB" };

type Statements = Readonly<Record<string, Model>>;

describePostgres("the model of PostgreSQL", () => {
  let server: PostgresServer;
  let pool: Pool;
  beforeAll(async () => {
    server = await PostgresServer.start(QUIET);
    await prepareTwins(server);
    pool = new Pool({ connectionString: server.url, max: 1 });
  }, 30_000);
  afterAll(async () => {
    await pool.end();
    await server.stop();
  });

  /** The production driver in two processes, on a server and the model of one: every message goes to both. */
  async function play(twin: Twin, seed: number, count = CALLS): Promise<void> {
    const { clock } = twin;
    const backends: Backend[] = [];
    for (let n = 0; n < PROCESSES; n += 1) {
      const driver = postgresDriverOn(async () => twin.dialer(), { maxSessions: 1 });
      backends.push(await driver.open(context(clock, `p${n}`)));
    }
    try {
      for (const [n, call] of callsOf(seed, count).entries()) {
        if (call.do === "pass") await twin.pass(call.ms);
        else await perform(call, backends, clock).catch(() => undefined);
        await twin.quiet();
        twin.check();
        if (n % 50 === 0) await twin.compareTables();
      }
      await twin.compareTables();
    } finally {
      for (const backend of backends) await backend.close();
    }
  }

  it("answers the driver's messages as PostgreSQL does, reply by reply and row by row", {
    timeout: SOAK ? 3_600_000 : 60_000,
  }, async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1)
      await play(await Twin.open(pool, new FakeClock()), seed);
  });

  /** Two sessions with a row between them; the statements that were asked. */
  async function interleaved(seed: number, model?: Statements): Promise<ReadonlySet<string>> {
    const twin = await Twin.open(pool, new FakeClock(), model);
    const heard = await Ear.open(pool);
    const told: string[] = [];
    twin.engine.onNotify = (_channel, payload) => told.push(payload);
    try {
      await interleave(twin, seed, ROUNDS);
      expect(await heard.all(), "model: told").toEqual(told);
    } finally {
      heard.close();
    }
    return twin.seen;
  }

  it("answers two sessions with a row lock between them as PostgreSQL does: who waits, and what it sees then", {
    timeout: SOAK ? 3_600_000 : 60_000,
  }, async () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= SEEDS; seed += 1)
      for (const name of await interleaved(seed)) seen.add(name);
    expect(Object.keys(MODEL).filter((name) => name in SQL && !seen.has(name))).toEqual([]);
  });

  it("has after a crash what PostgreSQL has: every row that was committed, and a sequence that skipped numbers", async () => {
    const mortal = await PostgresServer.start(QUIET);
    const its = mortal.pool({ max: 1 });
    try {
      await prepareTwins(mortal);
      const twin = await Twin.open(its, new FakeClock());
      await play(twin, 7, 60);
      await mortal.kill();
      await mortal.restart();
      twin.engine.recover("synced");
      await twin.compareTables();
      expect(twin.engine.lastValue).toBeGreaterThan(30n);
    } finally {
      await its.end();
      await mortal.stop();
    }
  });

  it("answers what people write by hand, and the guard, as PostgreSQL does", async () => {
    await pool.query(`${PLAIN_SCHEMA}; ${postgresGuardSchema()}`);
    const twin = await Twin.open(pool, new FakeClock(), HAND_WRITTEN);
    const [a, b] = [await twin.dialBoth(), await twin.dialBoth()];
    for (const [who, statement, ...args] of BY_HAND) {
      const session = who === "a" ? a : b;
      await (await session.start([{ statement, args }], true)).end();
      await twin.pass(1);
    }
    // The lock ends with its session.
    a.destroy();
    await vi.waitFor(async () => {
      const { rows } = await pool.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
      expect(rows).toEqual([]);
    }, 20_000);
    await (await b.start([{ statement: PLAIN.tryAdvisory, args: ["42"] }], true)).end();
    b.destroy();
    expect(Object.keys(HAND_WRITTEN).filter((name) => !twin.seen.has(name))).toEqual(["timeouts"]);
  });

  it.each(Object.entries(WRONG))(
    "a wrong model is rejected: %s",
    { timeout: 60_000 },
    async (_what, wrong) => {
      const rejected = async (): Promise<void> => {
        for (let seed = 1; seed <= 6; seed += 1) await interleaved(seed, { ...MODEL, ...wrong });
      };
      await expect(rejected()).rejects.toThrow(/model: /);
    },
  );
});

const HAND_WRITTEN: Statements = { ...PLAIN_MODEL, ...GUARD_MODEL };
const ROLLBACK = { name: "rollback", text: "ROLLBACK" };
const COMMIT = { name: "commit", text: "COMMIT" };
const G = statementsFor("ringfence_guard");

/** A statement of the guard. */
function guard(text: string): Statement {
  return { name: "guard", text };
}

type Turn = readonly [who: "a" | "b", statement: Statement, ...args: string[]];

/** Two sessions in turn. Its `now()` is the real one on the server: only what does not depend on how long this takes. */
const BY_HAND: readonly Turn[] = [
  ["a", PLAIN.pid],
  ["a", PLAIN.drawToken],
  ["a", PLAIN.takeLease, "L", "a", "3600000"],
  ["b", PLAIN.takeLease, "L", "b", "3600000"],
  ["b", PLAIN.endLease, "L", "b"],
  ["a", PLAIN.endLease, "L", "a"],
  ["b", PLAIN.takeLease, "L", "b", "-1"],
  // By the clock it is over, by the beginning of this transaction it is not.
  ["a", PLAIN.plainBegin],
  ["a", PLAIN.readVersion, "R"],
  ["b", PLAIN.takeLease, "L", "b", "0"],
  ["a", PLAIN.takeLease, "L", "a", "1000"],
  ["a", ROLLBACK],
  // A session's lock is counted, and is another's business for everybody else.
  ["a", PLAIN.tryAdvisory, "42"],
  ["a", PLAIN.tryAdvisory, "42"],
  ["b", PLAIN.tryAdvisory, "42"],
  ["b", PLAIN.unlockAdvisory, "42"],
  ["a", PLAIN.unlockAdvisory, "42"],
  ["b", PLAIN.tryAdvisory, "42"],
  // An older snapshot reads what was overwritten, and may lock what was not changed.
  ["a", PLAIN.setGuard, "R", "33", "g33"],
  ["b", PLAIN.oldBegin],
  ["b", PLAIN.readVersion, "R"],
  ["a", PLAIN.addVersion, "R", "1", "a"],
  ["a", PLAIN.readVersion, "R"],
  ["b", PLAIN.lockGuard, "R"],
  ["b", PLAIN.readVersion, "R"],
  ["b", COMMIT],
  // What was changed it may not.
  ["b", PLAIN.oldBegin],
  ["b", PLAIN.readGuard, "R"],
  ["a", PLAIN.setGuard, "R", "34", "g34"],
  ["b", PLAIN.readGuard, "R"],
  ["b", PLAIN.lockGuard, "R"],
  ["b", PLAIN.readGuard, "R"],
  ["b", ROLLBACK],
  // The guard: a claim by the pair, and a check that an older snapshot does not survive.
  ["a", guard(G.format)],
  ["a", guard(G.floor), "scope"],
  ["a", guard(G.claim), "r", "33", "g33", "scope"],
  ["a", guard(G.insert), "r", "33", "g33", "scope"],
  ["b", guard(G.insert), "r", "34", "g34", "scope"],
  ["b", guard(G.claim), "r", "33", "other", "scope"],
  ["b", guard(G.claim), "r", "34", "g34", "another scope"],
  ["b", guard(G.claim), "r", "34", "g34", "scope"],
  ["a", guard(G.entry), "r"],
  ["a", guard(G.claim), "r", "33", "g33", "scope"],
  ["b", PLAIN.oldBegin],
  ["b", guard(G.entry), "r"],
  ["a", guard(G.verify), "r", "33", "g33", "scope", "60000"],
  ["a", guard(G.verify), "r", "34", "g34", "scope", "60000"],
  ["b", guard(G.lock), "r"],
  ["b", ROLLBACK],
];

/** A session that hears notifications. */
class Ear {
  readonly #client: Client;
  readonly #heard: string[] = [];
  #end: () => void = () => undefined;

  private constructor(client: Client) {
    this.#client = client;
    client.on("notification", ({ payload = "" }) => {
      if (payload === "end") this.#end();
      else this.#heard.push(payload);
    });
  }

  static async open(pool: Pool): Promise<Ear> {
    const { Client: Made } = await import("pg");
    const client = new Made(pool.options);
    await client.connect();
    const ear = new Ear(client);
    await client.query(`LISTEN ${CHANNEL}`);
    return ear;
  }

  /** What was told until now. */
  async all(): Promise<readonly string[]> {
    await new Promise<void>((resolve) => {
      this.#end = resolve;
      void this.#client.query(`NOTIFY ${CHANNEL}, 'end'`);
    });
    return this.#heard;
  }

  close(): void {
    void this.#client.end();
  }
}

/** Reads the moment at which the transaction began, as `now()` does. */
class AtStart extends Access {
  override clock(): number {
    return this.tx.began;
  }
}

/** Writes what it saw, whatever came in between. */
class Blind extends Access {
  override *change<N extends TableName>(
    table: N,
    is: (row: Rows[N]) => boolean,
    set: (row: Rows[N]) => Rows[N] | undefined,
  ): Waiting<Rows[N][]> {
    if (table === "locks") yield* this.writesLocks();
    const done: Rows[N][] = [];
    for (const [id, seen] of this.where(table, is)) {
      yield* this.lock(table, id);
      const next = set(seen);
      this.put(table, id, next);
      done.push(next ?? seen);
    }
    return done;
  }
}

function through(make: (at: Access) => Access): Statements {
  const entries = Object.entries(MODEL).map(([name, run]): [string, Model] => [
    name,
    (at, args) => run(make(at), args),
  ]);
  return Object.fromEntries(entries);
}

const run = (name: string, at: Access, args: Args): Waiting<readonly string[]> =>
  MODEL[name]!(at, args);

/** Models that are wrong in one thing. */
const WRONG: Readonly<Record<string, Statements>> = {
  "the clock stands still inside a transaction": through((at) => new AtStart(at.engine, at.tx)),
  "a statement that waited does not look again": through((at) => new Blind(at.engine, at.tx)),
  "a transaction sees what was committed when it began": through((at) => {
    at.tx.snapshot ??= at.engine.versions.commit;
    return at.again();
  }),
  "a row that is looked at for update is not locked": {
    *lockRow(at, args) {
      return at.get("locks", args[0] ?? "") === undefined ? [] : ["1"];
    },
  },
  "one that waits for a name sees it as it was": {
    *lockRow(at, args) {
      const rows = yield* run("lockRow", at, args);
      at.tx.snapshot = at.engine.versions.commit - 1;
      return rows;
    },
  },
  "no number is lost where a grant comes to nothing": {
    *grantIdle(at, args) {
      const lock = at.get("locks", args[0] ?? "");
      if (lock !== undefined && lock.grant_id !== null && lock.expires > at.clock()) return [];
      return yield* run("grantIdle", at, args);
    },
  },
  "notifications are told before the commit": {
    *wake(at, args) {
      at.engine.onNotify(args[0] ?? "", args[1] ?? "");
      return [""];
    },
  },
  "a renewal may end a lease sooner": {
    *renewSole(at, args) {
      for (const row of at.rows("locks", ({ expires }) => expires > at.clock()))
        if (!at.engine.heldByOther(at.tx, `locks ${row.key}`))
          at.put("locks", row.key, { ...row, expires: at.clock() + 1 });
      return yield* run("renewSole", at.again(), args);
    },
  },
  "an offer that was not taken stands": {
    *miss() {
      return [];
    },
  },
  "a tombstone forgets that its grant was revoked": {
    *bury(at, args) {
      const [key, grant] = args;
      const tomb = at.get("tombs", `${key} ${grant}`);
      if (tomb !== undefined) at.put("tombs", `${key} ${grant}`, { ...tomb, kind: "released" });
      return yield* run("bury", at.again(), args);
    },
  },
  "a sweep does not wait for those who write": {
    *sweepLocks(at, args) {
      for (const key of JSON.parse(args[0] ?? "[]") as string[]) at.put("locks", key, undefined);
      return ["50ms"];
    },
  },
};
