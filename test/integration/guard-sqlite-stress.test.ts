import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "libsql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { size, untilEnough } from "../fixtures/soak.ts";
import { type AcceptedWrite, checkAccepted, type Verdict } from "../support/accepted-writes.ts";
import { bundle } from "../support/bundle.ts";
import { temporaryFolder } from "../support/guard-fixtures.ts";
import type { StressOrder, StressReport } from "../support/guard-stress-worker.ts";

const WORKERS = 8;
const FOR_MS = { unguarded: size(500, 10_000), guarded: size(1200, 140_000) };
/** Beyond the work itself: further rounds, and the start of the processes, on a busy machine. */
const TIMEOUT_MS = FOR_MS.guarded + 120_000;
const FIRST = "first";
const SERVICES = [
  ["adversary", "a lock service that cannot be trusted"],
  ["manager", "a lock manager whose holders overstay"],
] as const;

interface Outcome extends Verdict {
  readonly writes: number;
  readonly value: number;
  readonly pauses: number;
  readonly claimsRefused: number;
  readonly writesRefused: number;
}

type Service = StressOrder["service"];

describe("the SQLite guard among processes that are stopped while their leases expire", () => {
  const folder = temporaryFolder();
  const workers: ChildProcess[] = [];
  let worker: Awaited<ReturnType<typeof bundle>> | undefined;

  beforeAll(async () => {
    worker = await bundle("test/support/guard-stress-worker.ts");
    const { file } = worker;
    const started = Array.from({ length: WORKERS }, async () => {
      const child = fork(file, { execArgv: [], stdio: ["ignore", "inherit", "inherit", "ipc"] });
      workers.push(child);
      await message(child);
    });
    await Promise.all(started);
  }, 60_000);

  afterAll(() => {
    for (const child of workers) {
      child.kill("SIGCONT");
      child.kill("SIGKILL");
    }
    worker?.remove();
    folder.remove();
  });

  /** Lets the workers work, and again where a busy machine left too little to see; the verdict is on all of it. */
  async function run(
    service: Service,
    guarded: boolean,
    forMs: number,
    enough: (outcome: Outcome) => boolean,
  ): Promise<Outcome> {
    const file = join(folder.path, `${service}-${guarded ? "guarded" : "unguarded"}.db`);
    create(file);
    const counts = { accepted: 0, pauses: 0, claimsRefused: 0, writesRefused: 0 };
    let rounds = 0;
    return untilEnough(async () => {
      rounds += 1;
      const all = Promise.all(
        workers.map(async (child, number) => {
          const name = `${rounds}.${number}`;
          child.send({ file, guarded, service, forMs, worker: name } satisfies StressOrder);
          return (await message(child)) as StressReport;
        }),
      );
      counts.pauses += await pauseAtRandom(workers, all);
      for (const report of await all) {
        counts.accepted += report.accepted;
        counts.claimsRefused += report.claimsRefused;
        counts.writesRefused += report.writesRefused;
      }
      const { writes, value } = recorded(file);
      expect(writes.length).toBe(counts.accepted);
      return { ...checkAccepted(FIRST, writes), writes: writes.length, value, ...counts };
    }, enough);
  }

  for (const [service, name] of SERVICES) {
    it(
      `loses updates without the guard under ${name}, so that the run proves something`,
      async () => {
        const outcome = await run(
          service,
          false,
          FOR_MS.unguarded,
          ({ lostUpdates, staleWrites }) => lostUpdates > 0 && staleWrites > 0,
        );
        expect(outcome.lostUpdates).toBeGreaterThan(0);
        expect(outcome.staleWrites).toBeGreaterThan(0);
        expect(outcome.value).toBeLessThan(outcome.writes);
      },
      TIMEOUT_MS,
    );

    it(
      `loses no update and accepts no stale write with it under ${name}`,
      async () => {
        const enough = (outcome: Outcome): boolean => hasWhatItIsAbout(service, outcome);
        const outcome = await run(service, true, FOR_MS.guarded, enough);
        console.log(`guarded, ${name}: ${JSON.stringify(outcome)}`);
        expect(outcome).toMatchObject({ lostUpdates: 0, staleWrites: 0, witness: null });
        expect(outcome.value).toBe(outcome.writes);
        expect(enough(outcome)).toBe(true);
      },
      TIMEOUT_MS,
    );
  }
});

/** Writes that came through, pauses, and holders that came too late; a good service rarely hands out a late claim. */
function hasWhatItIsAbout(
  service: Service,
  { writes, pauses, claimsRefused, writesRefused }: Outcome,
): boolean {
  const late = writesRefused > 0 && (service === "manager" || claimsRefused > 0);
  return writes > 5 && pauses > 10 && late;
}

/** The next message; rejects when the process ends instead. */
async function message(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void => {
      reject(new Error(`a worker ended with ${code ?? "a signal"}`));
    };
    child.once("exit", ended);
    child.once("message", (value) => {
      child.off("exit", ended);
      resolve(value);
    });
  });
}

/** Stops and continues workers until the work is done; resolves to how often. */
async function pauseAtRandom(
  children: readonly ChildProcess[],
  work: Promise<unknown>,
): Promise<number> {
  let working = true;
  const done = work.finally(() => {
    working = false;
  });
  let pauses = 0;
  const torment = async (): Promise<void> => {
    while (working) {
      const child = children[Math.floor(Math.random() * children.length)];
      child?.kill("SIGSTOP");
      pauses += 1;
      await sleep(2 + Math.random() * 25);
      child?.kill("SIGCONT");
      await sleep(Math.random() * 10);
    }
  };
  await Promise.all([done, torment(), torment()]);
  // Both may have stopped the same one: one more wake-up for all harms nobody.
  for (const child of children) child.kill("SIGCONT");
  return pauses;
}

function create(file: string): void {
  const db = new Database(file);
  db.exec("PRAGMA journal_mode = WAL");
  db.exec("CREATE TABLE service (token INTEGER, ends_ms REAL)");
  db.exec("INSERT INTO service VALUES (0, 0)");
  db.exec("CREATE TABLE counter (value INTEGER, version TEXT)");
  db.prepare("INSERT INTO counter VALUES (0, ?)").run(FIRST);
  db.exec(
    "CREATE TABLE accepted (i INTEGER PRIMARY KEY AUTOINCREMENT, based_on TEXT, version TEXT, token INTEGER, grant_id TEXT)",
  );
  db.close();
}

function recorded(file: string): { writes: readonly AcceptedWrite[]; value: number } {
  const db = new Database(file);
  const rows = db
    .prepare(
      "SELECT based_on AS basedOn, version, CAST(token AS TEXT) AS token, grant_id AS grantId FROM accepted ORDER BY i",
    )
    .all()
    .map((row) => {
      const write = row as Omit<AcceptedWrite, "token"> & { readonly token: string };
      return { ...write, token: BigInt(write.token) };
    });
  const { value } = db.prepare("SELECT value FROM counter").all()[0] as { value: number };
  db.close();
  return { writes: rows, value };
}
