import { checkAll, type PropertyId, type Verdict } from "../checkers/index.ts";
import { History } from "../history.ts";
import { ARMS, type Arm } from "../scenarios/scenario.ts";
import { Stage } from "../scenarios/stage.ts";
import type { PostgresOptions } from "../servers/postgres-server.ts";
import type { Tamper } from "../servers/table.ts";
import type { Choices } from "../sim/choices.ts";
import type { Weather } from "../sim/network.ts";
import { sealed } from "../sim/sealed.ts";
import { World } from "../sim/world.ts";
import { Chaos } from "./chaos.ts";
import { type CoreRun, runCore } from "./core-run.ts";
import { type FaultKind, FILE_TOLERATED, FORGETFUL, swarmOf } from "./swarm.ts";

/** One run of a subject, judged. */
export interface Trial {
  readonly choices: Choices;
  readonly history: History;
  readonly hash: number;
  /** The properties that did not hold. */
  readonly broken: readonly Verdict[];
}

/** Something to explore: what runs, and what must hold of it. */
export interface Subject {
  readonly name: string;
  readonly title: string;
  /** Whether a violation is a defect of Ringfence, or what the subject was made to show. */
  readonly ours: boolean;
  run(seed: number, choices: Choices | undefined): Promise<Trial>;
}

/** What must hold of the production core whatever happens, as long as the lock service keeps its memory and its clock. */
const CORE_PROPERTIES: readonly PropertyId[] = [
  "P1",
  "P3",
  "P4",
  "P5",
  "P6",
  "P11",
  "P12",
  "P14",
  "P15",
];

/** The production core and SQLite driver, under everything that processes of one host and their file survive. */
export function fileSubject(tamper?: Tamper): Subject {
  return {
    name: "sqlite",
    title:
      "the production core and SQLite driver on one host, under every fault that they tolerate",
    ours: true,
    async run(seed, choices) {
      const history = new History({ scenario: "sqlite", seed: String(seed), backend: "sqlite" });
      const swarm = swarmOf(seed, FILE_TOLERATED);
      return await judged(history, {
        seed,
        swarm,
        store: "sqlite",
        ...(choices === undefined ? {} : { choices }),
        ...(tamper === undefined ? {} : { table: { tamper } }),
      });
    },
  };
}

/** The production core and lease-table driver over a modelled PostgreSQL that has `synchronous_commit` off. */
export function postgresSubject(postgres?: PostgresOptions): Subject {
  return {
    name: "postgres",
    title:
      "the production core and PostgreSQL driver over sessions, under every fault that they tolerate",
    ours: true,
    async run(seed, choices) {
      const history = new History({
        scenario: "postgres",
        seed: String(seed),
        backend: "postgres",
      });
      const { ttlMs, ...swarm } = swarmOf(seed);
      return await judged(history, {
        seed,
        // The driver's shortest ttl.
        swarm: { ...swarm, ttlMs: Math.max(ttlMs, 250) },
        store: "postgres",
        ...(choices === undefined ? {} : { choices }),
        ...(postgres === undefined ? {} : { postgres }),
      });
    },
  };
}

/** Servers have no common record of grants: what is judged is what clients believed, and what they did. */
const QUORUM_PROPERTIES: readonly PropertyId[] = ["P1", "P3", "P4", "P5", "P15"];

/** The production core and Redlock driver, 3 of 5, under everything that the protocol tolerates. */
function quorumSubject(): Subject {
  return {
    name: "redlock",
    title:
      "the production core and Redlock driver over five servers, under every fault that they tolerate",
    ours: true,
    async run(seed, choices) {
      const history = new History({ scenario: "redlock", seed: String(seed), backend: "redlock" });
      const { ttlMs, ...swarm } = swarmOf(seed);
      const run = {
        seed,
        // The driver's shortest ttl, and its one mode.
        swarm: { ...swarm, ttlMs: Math.max(ttlMs, 500), kinds: false },
        store: "redlock",
        ...(choices === undefined ? {} : { choices }),
      } as const;
      return await judged(history, run, QUORUM_PROPERTIES);
    },
  };
}

/** The production core and Redis driver over one server that keeps what it has. */
export function redisSubject(tamper?: Tamper): Subject {
  return {
    name: "redis",
    title:
      "the production core and Redis driver over one server, under every fault that they tolerate",
    ours: true,
    async run(seed, choices) {
      const history = new History({ scenario: "redis", seed: String(seed), backend: "redis" });
      return await judged(history, {
        seed,
        swarm: swarmOf(seed),
        store: "redis",
        ...(choices === undefined ? {} : { choices }),
        ...(tamper === undefined ? {} : { table: { tamper } }),
      });
    },
  };
}

/** What a resource accepts. */
const GUARDED_PROPERTIES: readonly PropertyId[] = ["P3", "P4", "P15"];

/** A Redis that loses grants and whose clock is set: who believes what is open, what the resource accepts is not. */
function forgetfulSubject(): Subject {
  return {
    name: "redis-forgets",
    title:
      "the guard, under the Redis driver over a server that restarts without its memory, fails over, or has its clock set",
    ours: true,
    async run(seed, choices) {
      const scenario = "redis-forgets";
      const history = new History({ scenario, seed: String(seed), backend: "redis" });
      const run = {
        seed,
        swarm: swarmOf(seed, FORGETFUL),
        store: "redis",
        replicas: seed % 3,
        ...(choices === undefined ? {} : { choices }),
      } as const;
      return await judged(history, run, GUARDED_PROPERTIES);
    },
  };
}

async function judged(
  history: History,
  run: CoreRun,
  properties: readonly PropertyId[] = CORE_PROPERTIES,
): Promise<Trial> {
  const out = await sealed(async () => runCore({ ...run, history }));
  const broken = checkAll(history, {}, properties).filter(({ verdict }) => verdict === false);
  if (out.stuck.length > 0) broken.push(noProgress(out.stuck));
  return { choices: out.choices, history, hash: out.hash, broken };
}

/** The production core and memory driver under everything that the protocol tolerates; with `tamper`, a wrong driver. */
export function coreSubject(tamper?: Tamper): Subject {
  return {
    name: "core",
    title: "the production core over the memory driver, under every fault that it tolerates",
    ours: true,
    async run(seed, choices) {
      const history = new History({ scenario: "core", seed: String(seed), backend: "memory" });
      return await judged(history, {
        seed,
        swarm: swarmOf(seed),
        ...(choices === undefined ? {} : { choices }),
        ...(tamper === undefined ? {} : { table: { tamper } }),
      });
    },
  };
}

function noProgress(stuck: readonly string[]): Verdict {
  const sentence = `${stuck.join(", ")} did not get the lock any more after every fault was over.`;
  return {
    property: "P8",
    title: "deadlock freedom",
    verdict: false,
    judged: stuck.length,
    violations: [{ sentence, witness: [] }],
    violationCount: stuck.length,
    reasons: [],
    notes: [],
  };
}

interface FreePlay {
  readonly name: string;
  readonly title: string;
  readonly arm: Arm;
  readonly property: PropertyId;
  readonly weather: Weather;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  readonly ttlMs: number;
}

/** An empty scenario: clients that do nothing but work under one lock, and whatever the choices bring. */
function freePlay(options: FreePlay): Subject {
  const { name, title, arm, property, weather, faults, ttlMs } = options;
  return {
    name,
    title,
    ours: false,
    async run(seed, choices) {
      const history = new History({ scenario: name, seed: String(seed), backend: arm.lock.kind });
      return await sealed(async () => {
        const world = new World({
          seed,
          history,
          weather,
          ...(choices === undefined ? {} : { choices }),
        });
        const stage = new Stage(world, ARMS[0] ?? "naive", arm);
        const clients = ["A", "B"];
        for (const client of clients) void work(stage, client, ttlMs);
        const swarm = { ...swarmOf(seed), faults, ttlMs, everyMs: ttlMs / 4 };
        const chaos = new Chaos(world, swarm, {
          clients,
          servers: stage.servers,
          restart: () => undefined,
          powerOff: () => undefined,
          restartServer: (server) => {
            stage.redis.find((redis) => redis.name === server)?.restart("nothing");
          },
        });
        await world.run(ttlMs * 4);
        chaos.end();
        const broken = checkAll(history, {}, [property]).filter(({ verdict }) => verdict === false);
        return { choices: world.choices, history, hash: world.probe.hash, broken };
      });
    },
  };
}

async function work(stage: Stage, name: string, ttlMs: number): Promise<void> {
  for (let n = 0; n < 3; n += 1) {
    const held = await stage.client(name).acquire("L", { ttlMs, waitMs: ttlMs * 2 });
    if (held === null) continue;
    const from = await stage.open(name, held);
    await stage.sleep(name, 10);
    await stage.write(name, held, from);
    await held.release();
    await stage.sleep(name, 5);
  }
}

const SLOW: Weather = { delaysMs: [1, 30, 2000], weights: [8, 2, 1], lose: 0, repeat: 0 };
const LOSSY: Weather = { delaysMs: [1, 30], weights: [8, 1], lose: 2, repeat: 0 };
const QUORUM: Arm = {
  lock: { kind: "redlock", habits: { quorum: 2, token: "max" }, nodes: 3 },
  guard: "none",
  holds: false,
};

/** What can be explored, by name: what must not break, then what is there to be broken. */
export const SUBJECTS: readonly Subject[] = [
  coreSubject(),
  fileSubject(),
  redisSubject(),
  forgetfulSubject(),
  quorumSubject(),
  postgresSubject(),
  freePlay({
    name: "S04",
    title: "the articles' fence: a late write before the successor's first write",
    arm: { lock: { kind: "redis", habits: { token: true } }, guard: "fence", holds: false },
    property: "P4",
    weather: SLOW,
    faults: {},
    ttlMs: 1000,
  }),
  freePlay({
    name: "S11",
    title: "Redlock with a bare majority and a server whose clock jumps",
    arm: QUORUM,
    property: "P1",
    weather: LOSSY,
    faults: { "step server": 0.3 },
    ttlMs: 3000,
  }),
  freePlay({
    name: "S12",
    title: "Redlock with a bare majority and a server that restarts empty",
    arm: QUORUM,
    property: "P1",
    weather: LOSSY,
    faults: { "server forgets": 0.3 },
    ttlMs: 3000,
  }),
  freePlay({
    name: "S21",
    title: "GET, then SET",
    arm: { lock: { kind: "redis", habits: { take: "get-set" } }, guard: "none", holds: false },
    property: "P1",
    weather: SLOW,
    faults: {},
    ttlMs: 1000,
  }),
];

/** @throws RangeError for an unknown name */
export function subjectOf(name: string): Subject {
  const subject = SUBJECTS.find((each) => each.name === name);
  if (subject === undefined) throw new RangeError(`Nothing to explore is called ${name}.`);
  return subject;
}
