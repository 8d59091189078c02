import { CoreClient } from "../clients/core-client.ts";
import type { History } from "../history.ts";
import { ResourceServer } from "../servers/resource.ts";
import { type TableOptions, TableServer } from "../servers/table.ts";
import type { Choices } from "../sim/choices.ts";
import type { SimProcess } from "../sim/process.ts";
import { World } from "../sim/world.ts";
import { section } from "../workloads/section.ts";
import { Chaos } from "./chaos.ts";
import type { Swarm } from "./swarm.ts";

/** A run of the production core under whatever the swarm and the choices bring. */
export interface CoreRun {
  readonly seed: number;
  readonly swarm: Swarm;
  readonly choices?: Choices;
  readonly history?: History | null;
  readonly table?: TableOptions;
  readonly turns?: number;
  /** What a client is; another core, for mutation tests. */
  readonly client?: (...args: ConstructorParameters<typeof CoreClient>) => CoreClient;
}

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
  const table = new TableServer(world, "S", run.table);
  const resource = new ResourceServer(world, "X", "claim");
  const names = Array.from({ length: swarm.clients }, (_, i) => String.fromCharCode(65 + i));
  const state = { sections: 0, healed: false, left: new Set<string>() };
  const start = (name: string): void => {
    const process = world.start(name);
    const make = run.client ?? ((...args) => new CoreClient(...args));
    const core = make(world, process, table.driverFor(process), {
      ttl: swarm.ttlMs,
      handOff: "local",
    });
    const loop = clientLoop({ world, process, core, resource, swarm, state, name });
    void loop;
  };
  for (const name of names) start(name);
  const chaos = new Chaos(world, swarm, {
    clients: names,
    servers: ["S"],
    restart: start,
    restartServer: (_server, memory) => {
      table.restart(memory);
    },
  });
  await world.run(CHAOS_TTLS * swarm.ttlMs);
  chaos.end();
  for (const name of names) state.left.add(name);
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

interface LoopParts {
  readonly world: World;
  readonly process: SimProcess;
  readonly core: CoreClient;
  readonly resource: ResourceServer;
  readonly swarm: Swarm;
  readonly state: { sections: number; healed: boolean; readonly left: Set<string> };
  readonly name: string;
}

async function clientLoop(parts: LoopParts): Promise<void> {
  const { world, process, core, resource, swarm, state, name } = parts;
  const { ttlMs } = swarm;
  const habits = world.choices.site(`client ${name}`);
  const waits = [undefined, ttlMs * 0.3, ttlMs * 2];
  const works = [1, ttlMs * 0.1, ttlMs * 0.5, ttlMs * 1.3];
  for (;;) {
    const began = state.healed;
    const lock = `L${habits.among(swarm.locks)}`;
    const waitMs = began ? undefined : waits[habits.among(3)];
    const outcome = await section(process, core, resource, {
      lock,
      res: `R-${lock}`,
      terms: {
        ttlMs,
        renews: began || habits.among(4) > 0,
        lockDelayMs: ttlMs * (habits.among(4) === 3 ? 0.5 : 0),
        ...(waitMs === undefined ? {} : { waitMs }),
      },
      workMs: began ? 1 : (works[habits.among(works.length)] ?? 1),
      rounds: 1 + habits.among(2),
      heeds: habits.among(3) > 0,
      ...(habits.among(4) === 3 ? { renewMs: ttlMs * (habits.among(2) === 0 ? 3 : 0.6) } : {}),
    });
    if (outcome === "done") {
      state.sections += 1;
      if (began) {
        state.left.delete(name);
        return;
      }
    }
    await process.sleep(1 + ttlMs * 0.05 * habits.among(5));
  }
}
