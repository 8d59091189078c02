import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeMariadb, MariadbServer } from "../fixtures/mariadb-server.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { SOAK, size, untilEnough } from "../fixtures/soak.ts";
import { checkAccepted, type Verdict } from "../support/accepted-writes.ts";
import { bundle } from "../support/bundle.ts";
import type { StormClient, StormOrder } from "../support/guard-storm-worker.ts";

const WORKERS = 8;
const FIRST = "first";
const FOR_MS = { unguarded: size(700, 10_000), guarded: size(1500, 300_000) };
/** Beyond the work itself: further rounds, and the start of the processes, on a busy machine. */
const TIMEOUT_MS = FOR_MS.guarded + 180_000;

interface Outcome extends Verdict {
  readonly writes: number;
  readonly value: number;
  readonly said: Readonly<Record<string, number>>;
  readonly pauses: number;
  readonly kills: number;
}

interface Server {
  readonly url: string;
  query(text: string): Promise<unknown>;
}

/** One of the processes, and whoever takes its place when it is killed. */
class Place {
  readonly #file: string;
  readonly #client: StormClient;
  readonly #said: Record<string, number>;
  #child: ChildProcess | undefined;
  /** Whether its process has started: its start is not what this is about. */
  ready = false;

  constructor(file: string, client: StormClient, said: Record<string, number>) {
    this.#file = file;
    this.#client = client;
    this.#said = said;
  }

  async start(): Promise<void> {
    const child = fork(this.#file, [JSON.stringify(this.#client)], { execArgv: [] });
    this.#child = child;
    this.ready = false;
    child.on("message", (what: string) => {
      this.#said[what] = (this.#said[what] ?? 0) + 1;
    });
    const how = await new Promise<string>((resolve) => {
      child.once("message", () => {
        resolve("ready");
      });
      child.once("exit", (code, signal) => {
        resolve(String(signal ?? code));
      });
    });
    if (how !== "ready") throw new Error(`a worker did not start: ${how}`);
    this.ready = true;
  }

  /** Lets it work; a place whose process is killed gets a new one, with what is left of the time. */
  async work(order: StormOrder, lives = 1): Promise<void> {
    const began = performance.now();
    // It may have been killed just after it was done.
    if (this.#child?.connected !== true) await this.start();
    const child = this.#child;
    if (child === undefined) throw new Error("no process");
    const end = await new Promise<string>((resolve) => {
      child.on("message", (what) => {
        if (what === "done") resolve("done");
      });
      child.once("exit", (code, signal) => {
        resolve(String(signal ?? code));
      });
      const sent = { ...order, worker: `${order.worker}.${lives}` };
      // Where it cannot be sent, the process is ending, and says so.
      child.send(sent, () => undefined);
    });
    if (end === "done") return;
    if (end !== "SIGKILL") throw new Error(`a worker ended with ${end}`);
    await this.start();
    const left = order.forMs - (performance.now() - began);
    if (left > 0) await this.work({ ...order, forMs: left }, lives + 1);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }
}

/** Processes that are stopped and continued at random, and of which now and then one is killed. */
class Storm {
  readonly said: Record<string, number> = {};
  pauses = 0;
  kills = 0;
  #stretches = 0;
  readonly #places: readonly Place[];

  constructor(file: string, client: StormClient) {
    this.#places = Array.from({ length: WORKERS }, () => new Place(file, client, this.said));
  }

  async start(): Promise<void> {
    await Promise.all(this.#places.map(async (place) => place.start()));
  }

  end(): void {
    for (const place of this.#places) {
      place.kill("SIGCONT");
      place.kill("SIGKILL");
    }
  }

  async rage(guarded: boolean, forMs: number): Promise<void> {
    this.#stretches += 1;
    let ended = false;
    const over = (): boolean => ended;
    const work = Promise.all(
      this.#places.map(async (place, i) =>
        place.work({ guarded, forMs, worker: `${this.#stretches}.${i}` }),
      ),
    ).finally(() => {
      ended = true;
    });
    const torment = async (): Promise<void> => {
      while (!over()) {
        const place = this.#any();
        if (!place.ready) {
          await sleep(5);
          continue;
        }
        place.kill("SIGSTOP");
        this.pauses += 1;
        // Mostly longer than a lease, now and then longer than a transaction may stand still.
        await sleep(Math.random() < 0.05 ? 900 : 2 + Math.random() * 50);
        place.kill("SIGCONT");
        await sleep(Math.random() * 10);
      }
    };
    const kill = async (): Promise<void> => {
      while (!over()) {
        await sleep(Math.min(forMs / 3, 4000) * (0.5 + Math.random()));
        const place = this.#any();
        if (over() || !place.ready) continue;
        place.ready = false;
        place.kill("SIGKILL");
        this.kills += 1;
        if (!SOAK) return;
      }
    };
    await Promise.all([work, torment(), torment(), kill()]);
    for (const place of this.#places) place.kill("SIGCONT");
  }

  #any(): Place {
    const place = this.#places[Math.floor(Math.random() * this.#places.length)];
    if (place === undefined) throw new Error("no places");
    return place;
  }
}

async function reset(server: Server): Promise<void> {
  for (const text of [
    "DROP TABLE IF EXISTS service",
    "DROP TABLE IF EXISTS counter",
    "DROP TABLE IF EXISTS accepted",
    "CREATE TABLE service (token BIGINT, ends_ms BIGINT)",
    "INSERT INTO service VALUES (0, 0)",
    "CREATE TABLE counter (value INT, version VARCHAR(40))",
    `INSERT INTO counter VALUES (0, '${FIRST}')`,
  ])
    await server.query(text);
}

function storms(client: StormClient["client"], serial: string, server: () => Server): void {
  let file: Awaited<ReturnType<typeof bundle>>;
  let storm: Storm;
  beforeAll(async () => {
    file = await bundle("test/support/guard-storm-worker.ts");
    storm = new Storm(file.file, { client, url: server().url });
    await storm.start();
  }, 60_000);
  afterAll(() => {
    storm.end();
    file.remove();
  });

  async function run(guarded: boolean, enough: (outcome: Outcome) => boolean): Promise<Outcome> {
    await reset(server());
    await server().query(
      `CREATE TABLE accepted (i ${serial} PRIMARY KEY, based_on VARCHAR(40), version VARCHAR(40), token BIGINT, grant_id VARCHAR(40))`,
    );
    return untilEnough(async () => {
      await storm.rage(guarded, guarded ? FOR_MS.guarded : FOR_MS.unguarded);
      const { said, pauses, kills } = storm;
      return { ...(await recorded(server())), said, pauses, kills };
    }, enough);
  }

  it(
    "loses updates without the guard, so that the storm proves something",
    async () => {
      const outcome = await run(
        false,
        ({ lostUpdates, staleWrites }) => lostUpdates > 0 && staleWrites > 0,
      );
      expect(outcome.lostUpdates).toBeGreaterThan(0);
      expect(outcome.staleWrites).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );

  it(
    "loses no update and accepts no stale write with it, and holders did come too late",
    async () => {
      const outcome = await run(true, isAboutIt);
      console.log(`storm over ${client}: ${JSON.stringify(outcome)}`);
      expect(outcome).toMatchObject({ lostUpdates: 0, staleWrites: 0, witness: null });
      expect(outcome.value).toBe(outcome.writes);
      expect(isAboutIt(outcome)).toBe(true);
    },
    TIMEOUT_MS,
  );
}

/** Writes that came through, processes that were stopped and killed, and holders that came too late. */
function isAboutIt({ writes, pauses, kills, said }: Outcome): boolean {
  return writes > 5 && pauses > 10 && kills > 0 && (said["verify refused"] ?? 0) > 0;
}

async function recorded(server: Server): Promise<Verdict & { writes: number; value: number }> {
  // A worker that was killed may have left a COMMIT on its way.
  await sleep(100);
  const rows = (await server.query(
    "SELECT based_on, version, token, grant_id FROM accepted ORDER BY i",
  )) as Record<string, string | number>[];
  const writes = rows.map((row) => ({
    basedOn: String(row["based_on"]),
    version: String(row["version"]),
    token: BigInt(row["token"] ?? 0),
    grantId: String(row["grant_id"]),
  }));
  const [counter] = (await server.query("SELECT value FROM counter")) as { value: number }[];
  return { ...checkAccepted(FIRST, writes), writes: writes.length, value: counter?.value ?? NaN };
}

describePostgres("the PostgreSQL guard in a storm", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  for (const client of ["pg", "postgres"] as const)
    describe(`through ${client}`, () => {
      storms(client, "BIGSERIAL", () => server);
    });
});

describeMariadb("the MySQL guard in a storm", () => {
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });
  storms("mysql2", "BIGINT AUTO_INCREMENT", () => server);
});
