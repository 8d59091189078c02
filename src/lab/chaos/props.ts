import { join } from "node:path";
import type { Arm, ArmName, Scenario } from "../scenarios/scenario.ts";
import { ClientChild } from "./client-process.ts";
import { lineFraming, rawFraming, redisFraming } from "./framing.ts";
import { Journal } from "./journal.ts";
import type { WorkerSetup } from "./messages.ts";
import { Proxy } from "./proxy.ts";
import { RedisProcess } from "./redis-process.ts";
import { ResourceListener } from "./resource-process.ts";
import { WallClock } from "./wall-clock.ts";

/** Everything real that one arm of a scenario runs with. */
export interface Props {
  /** Ringfence's store as its clients reach it; `null`: the lock is a naive one. */
  readonly store: string | null;
  /** The same store past every proxy, at a server's port. */
  readonly url: (port: number) => string;
  /** The lock's servers; the first is the primary. None where the store is a file. */
  readonly redis: RedisProcess[];
  readonly clients: ReadonlyMap<string, ClientChild>;
  /** By `client>server`. */
  readonly ways: ReadonlyMap<string, Proxy>;
  /** By process or server, where they can be moved. */
  readonly clocks: ReadonlyMap<string, WallClock>;
  readonly journal: Journal;
  readonly files: readonly string[];
  close(): Promise<void>;
}

interface How {
  readonly folder: string;
  readonly store: "redis" | "sqlite";
  readonly shim: string | undefined;
}

/** Numbers of a process's calls begin a million apart. */
const OPS = 1_000_000;

/** Starts the servers, the ways between and the client processes of one arm. */
export async function setUp(scenario: Scenario, armName: ArmName, how: How): Promise<Props> {
  const { real } = scenario;
  if (real === undefined) throw new RangeError(`${scenario.id} runs in the simulator only.`);
  const arm = scenario.arms[armName];
  const { lock } = arm;
  const production = lock.kind === "core" || lock.kind === "quorum";
  const independent = lock.kind === "quorum" || lock.kind === "redlock";
  const undo: (() => Promise<void>)[] = [];
  const parts: Parts = {
    how,
    undo,
    clocks: new Map(),
    ways: new Map(),
    moves: real.clock === true,
  };
  try {
    const journalFile = join(how.folder, "supervisor.ndjson");
    const journal = new Journal(journalFile, 0);
    undo.push(async () => {
      journal.close();
      return Promise.resolve();
    });
    const inFile = production && how.store === "sqlite";
    const redis = inFile ? [] : await startServers(countOf(scenario, arm), parts);
    if (!independent) await copyAll(redis, parts);
    const resource = await ResourceListener.open(arm.guard, journal);
    undo.push(async () => resource.close());
    const query = real.query === undefined ? "" : `?${real.query}`;
    // Who only looks demands nothing of the server.
    const plain = (port: number): string =>
      inFile ? `sqlite:${encodeURI(join(how.folder, "locks.db"))}` : `redis://127.0.0.1:${port}`;
    const url = (ports: readonly number[]): string =>
      lock.kind === "quorum"
        ? `redlock:${ports.map(plain).join(",")}?quorum=${lock.quorum}`
        : plain(ports[0] ?? 0) + (inFile ? "" : query);
    const clients = await Promise.all(
      real.clients.map(async (name, i) => {
        const ops = (i + 1) * OPS;
        const own = {
          scenario: scenario.id,
          arm: armName,
          name,
          ops,
          store: production ? url : null,
        };
        return startClient(own, { redis, resource, parts });
      }),
    );
    return {
      store: production ? url([]) : null,
      url: plain,
      redis,
      clients: new Map(clients.map((child) => [child.name, child])),
      ways: parts.ways,
      clocks: parts.clocks,
      journal,
      files: [journalFile, ...real.clients.map((name) => join(how.folder, `${name}.ndjson`))],
      close: async () => closeAll(undo),
    };
  } catch (error) {
    await closeAll(undo);
    throw error;
  }
}

interface Parts {
  readonly how: How;
  readonly undo: (() => Promise<void>)[];
  readonly clocks: Map<string, WallClock>;
  readonly ways: Map<string, Proxy>;
  /** Whether wall clocks are moved. */
  readonly moves: boolean;
}

/** A client process, with a way of its own to every server. */
async function startClient(
  own: Pick<WorkerSetup, "scenario" | "arm" | "name" | "ops"> & {
    readonly store: ((ports: readonly number[]) => string) | null;
  },
  {
    redis,
    resource,
    parts,
  }: {
    readonly redis: readonly RedisProcess[];
    readonly resource: ResourceListener;
    readonly parts: Parts;
  },
): Promise<ClientChild> {
  const { name, store } = own;
  const lead = async (to: string, port: number, framing: typeof lineFraming): Promise<number> =>
    way(parts, `${name}>${to}`, port, framing);
  const ports = await Promise.all(
    redis.map(async (server) => lead(server.name, server.port, redisFraming)),
  );
  const setup: WorkerSetup = {
    ...own,
    file: join(parts.how.folder, `${name}.ndjson`),
    store: store === null ? null : store(ports),
    redis: ports,
    resource: await lead("X", resource.port, lineFraming),
    service: await lead("Y", resource.port, lineFraming),
  };
  const child = await ClientChild.start(setup, clockOf(parts, name)?.env ?? {});
  parts.undo.push(async () => child.kill());
  return child;
}

/** Newest first: clients before the servers that they use. */
async function closeAll(undo: (() => Promise<void>)[]): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

function countOf({ arms }: Scenario, { lock }: Arm): number {
  if (lock.kind === "redlock" || lock.kind === "quorum") return lock.nodes ?? 5;
  const naive = arms.naive.lock;
  const replicas = lock.kind === "redis" ? lock.replicas : undefined;
  return 1 + (replicas ?? (naive.kind === "redis" ? naive.replicas : undefined) ?? 0);
}

async function startServers(count: number, parts: Parts): Promise<RedisProcess[]> {
  const names = Array.from({ length: count }, (_, i) => (count === 1 ? "S" : `S${i + 1}`));
  return await Promise.all(
    names.map(async (name) => {
      const folder = join(parts.how.folder, name);
      const server = await RedisProcess.start(name, folder, clockOf(parts, name));
      parts.undo.push(async () => server.kill());
      return server;
    }),
  );
}

/** Every server but the first becomes its copy, each over a way of its own. */
async function copyAll(
  [primary, ...replicas]: readonly RedisProcess[],
  parts: Parts,
): Promise<void> {
  if (primary === undefined) return;
  await Promise.all(
    replicas.map(async (replica) => {
      const port = await way(parts, `${replica.name}>${primary.name}`, primary.port, rawFraming);
      await replica.copy(port, primary, replicas.length);
    }),
  );
}

async function way(
  { ways, undo }: Parts,
  name: string,
  port: number,
  framing: typeof lineFraming,
): Promise<number> {
  const proxy = await Proxy.to(port, framing);
  ways.set(name, proxy);
  undo.push(async () => proxy.close());
  return proxy.port;
}

function clockOf({ clocks, how, moves }: Parts, name: string): WallClock | undefined {
  if (!moves || how.shim === undefined) return undefined;
  const clock = new WallClock(how.shim, join(how.folder, `${name}.clock`));
  clocks.set(name, clock);
  return clock;
}
