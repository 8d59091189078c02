import { CoreClient } from "../clients/core-client.ts";
import type { History } from "../history.ts";
import type { LockPlace } from "../servers/place.ts";
import { PostgresPlace } from "../servers/postgres-place.ts";
import type { PostgresOptions } from "../servers/postgres-server.ts";
import { RedisPlace } from "../servers/redis-place.ts";
import { RedlockPlace } from "../servers/redlock-server.ts";
import { ResourceServer } from "../servers/resource.ts";
import { SqliteHost } from "../servers/sqlite-host.ts";
import { type TableOptions, TableServer } from "../servers/table.ts";
import type { Choices } from "../sim/choices.ts";
import { World } from "../sim/world.ts";
import { Chaos, type Targets } from "./chaos.ts";
import { clientLoop } from "./loop.ts";
import type { Swarm } from "./swarm.ts";

/** A run of the production core under whatever the swarm and the choices bring. */
export interface CoreRun {
  readonly seed: number;
  readonly swarm: Swarm;
  readonly choices?: Choices;
  readonly history?: History | null;
  /** Where the lock lives; a server with the memory driver by default. */
  readonly store?: Store;
  readonly table?: TableOptions;
  readonly postgres?: PostgresOptions;
  readonly turns?: number;
  /** Replicas of a Redis: then what it forgets is what a promoted one had not heard of. */
  readonly replicas?: number;
  /** What a client is; another core, for mutation tests. */
  readonly client?: (...args: ConstructorParameters<typeof CoreClient>) => CoreClient;
}

/** Which production driver runs. */
type Store = "memory" | "sqlite" | "redis" | "redlock" | "postgres";

/** What a run came to. */
export interface CoreOutcome {
  readonly hash: number;
  readonly events: number;
  readonly sections: number;
  readonly faults: number;
  /** Clients that did not get the lock once more after everything had healed. */
  readonly stuck: readonly string[];
  readonly choices: Choices;
}

/** The longest that the faulty phase lasts, in ttls. */
const CHAOS_TTLS = 15;
/** How long after the end of all faults every client must have had the lock once more, in ttls. */
const HEALED_TTLS = 12;
const PATIENCE_MS = 60_000;

/**
 * First the faulty phase: clients contend, and whatever the choices say goes wrong. Then everything heals, and each client
 * must get through one more section.
 */
export async function runCore(run: CoreRun): Promise<CoreOutcome> {
  const { swarm } = run;
  const world = new World({
    seed: run.seed,
    weather: swarm.weather,
    history: run.history ?? null,
    ...(run.choices === undefined ? {} : { choices: run.choices }),
    ...(run.turns === undefined ? {} : { turns: run.turns }),
  });
  const { place, targets, healed } = SCENES[run.store ?? "memory"](world, run);
  const resource = new ResourceServer(world, "X", "claim");
  const names = Array.from({ length: swarm.clients }, (_, i) => String.fromCharCode(65 + i));
  // A second line of work in one process makes it hand the lock on inside itself.
  const linesOf = (name: string): string[] => (swarm.twofold ? [name, `${name}'`] : [name]);
  const state = { sections: 0, healed: false, left: new Set<string>() };
  const start = (client: string): void => {
    const process = place.startClient(client);
    const make = run.client ?? ((...args) => new CoreClient(...args));
    const core = make(world, process, place.driverFor(process), {
      ttl: swarm.ttlMs,
      handOff: "local",
    });
    for (const name of linesOf(client))
      void clientLoop({ world, process, core, resource, swarm, state, name });
  };
  for (const name of names) start(name);
  const powerOff = (): void => {
    targets.powerOff();
    for (const name of names) start(name);
  };
  const chaos = new Chaos(world, swarm, { ...targets, powerOff, clients: names, restart: start });
  await world.run(CHAOS_TTLS * swarm.ttlMs);
  chaos.end();
  healed();
  for (const name of names.flatMap(linesOf)) state.left.add(name);
  state.healed = true;
  world.net.weather = { ...swarm.weather, weights: [1], delaysMs: [1], lose: 0, repeat: 0 };
  for (const name of names) if (!world.process(name).alive) start(name);
  world.heal();
  const bound = world.now + HEALED_TTLS * Math.max(swarm.ttlMs, 1000) + PATIENCE_MS;
  await world.run(bound, () => state.left.size === 0);
  return {
    hash: world.probe.hash,
    events: world.scheduler.count,
    sections: state.sections,
    faults: chaos.count,
    stuck: [...state.left],
    choices: world.choices,
  };
}

type Parts = Pick<Targets, "servers" | "restartServer" | "powerOff">;

interface Scene {
  readonly place: LockPlace;
  readonly targets: Parts;
  /** The faults of the lock's own steps are over. */
  readonly healed: () => void;
}

const SCENES: Readonly<Record<Store, (world: World, run: CoreRun) => Scene>> = {
  memory: tableOf,
  sqlite: fileOf,
  redis: redisOf,
  redlock: quorumOf,
  postgres: postgresOf,
};

function tableOf(world: World, run: CoreRun): Scene {
  const place = new TableServer(world, "S", run.table);
  const targets = {
    servers: ["S"],
    powerOff: () => undefined,
    restartServer: (_server: string, memory: "kept" | "lost") => {
      place.restart(memory);
    },
  };
  return { place, targets, healed: () => undefined };
}

/** One Redis that writes each command to its file before it answers; without the file it has nothing. */
function redisOf(world: World, { table = {}, replicas = 0 }: CoreRun): Scene {
  const { tamper } = table;
  const place = new RedisPlace(world, {
    replicas,
    appendOnly: "always",
    ...(tamper === undefined ? {} : { tamper }),
  });
  const targets = {
    servers: place.servers.map(({ name }) => name),
    powerOff: () => undefined,
    restartServer: (_server: string, memory: "kept" | "lost") => {
      if (memory === "lost" && replicas > 0) place.switchOver();
      else place.primary.restart(memory === "lost" ? "nothing" : "page-cache");
    },
  };
  return { place, targets, healed: () => undefined };
}

/** Five independent servers, of which three must agree. */
function quorumOf(world: World): Scene {
  const place = new RedlockPlace(world, 5, 3);
  const targets = {
    servers: place.servers.map(({ name }) => name),
    powerOff: () => undefined,
    restartServer: (name: string, memory: "kept" | "lost") => {
      place.servers.find((server) => server.name === name)?.restart(memory);
    },
  };
  return { place, targets, healed: () => undefined };
}

/** A PostgreSQL that comes back with what it had flushed. */
function postgresOf(world: World, run: CoreRun): Scene {
  const place = new PostgresPlace(world, "S", { synchronousCommit: "off", ...run.postgres });
  const targets = {
    servers: ["S"],
    powerOff: () => undefined,
    restartServer: () => {
      place.restart();
    },
  };
  return { place, targets, healed: () => undefined };
}

/** The file has no process of its own that could be stopped: `X`, the resource, stands in for it. */
function fileOf(world: World, { swarm: { file, ttlMs }, table = {} }: CoreRun): Scene {
  const { durability, faults } = file;
  const stallsMs = [0.1, 0.5, 1.1, 2].map((share) => share * ttlMs);
  const { tamper } = table;
  const place = new SqliteHost(world, "F", {
    durability,
    faults,
    stallsMs,
    ...(tamper === undefined ? {} : { tamper }),
  });
  const luck = world.choices.site("written");
  const targets = {
    servers: ["X"],
    powerOff: () => {
      const unsynced = Math.min(place.file.unsynced, MAX_LUCK);
      place.powerOff("synced", { written: luck.among(unsynced + 1) });
    },
    restartServer: () => undefined,
  };
  const healed = (): void => {
    place.heal();
  };
  return { place, targets, healed };
}

/** Of how many unsynced commits it is drawn how many are on the disk by chance. */
const MAX_LUCK = 20;
