import { join } from "node:path";
import type { ArmName, Scenario } from "../scenarios/scenario.ts";
import { ClientChild } from "./client-process.ts";
import { lineFraming } from "./framing.ts";
import { Journal } from "./journal.ts";
import { type LockStore, openStore } from "./lock-store.ts";
import type { WorkerSetup } from "./messages.ts";
import { type How, Parts } from "./parts.ts";
import type { Proxy } from "./proxy.ts";
import { ResourceListener } from "./resource-process.ts";
import type { WallClock } from "./wall-clock.ts";

/** Everything real that one arm of a scenario runs with. */
export interface Props {
  readonly lock: LockStore;
  readonly resource: ResourceListener;
  readonly clients: ReadonlyMap<string, ClientChild>;
  /** By `client>server`; of several clients in one process by the first. */
  readonly ways: ReadonlyMap<string, Proxy>;
  /** By process or server, where they can be moved. */
  readonly clocks: ReadonlyMap<string, WallClock>;
  /** Clients that are on a host of their own. */
  readonly away: ReadonlySet<string>;
  readonly journal: Journal;
  readonly files: readonly string[];
  close(): Promise<void>;
}

/** Numbers of a process's calls begin a million apart. */
const OPS = 1_000_000;

/** Starts the servers, the ways between and the client processes of one arm. */
export async function setUp(scenario: Scenario, armName: ArmName, how: How): Promise<Props> {
  const { id, real, arms } = scenario;
  if (real === undefined) throw new RangeError(`${id} runs in the simulator only.`);
  const parts = new Parts(how, real.clock === true);
  try {
    const journalFile = join(how.folder, "supervisor.ndjson");
    const journal = new Journal(journalFile, 0);
    parts.atEnd(async () => {
      journal.close();
      return Promise.resolve();
    });
    const lock = await openStore(scenario, armName, { parts, journal });
    const resource = await ResourceListener.open(arms[armName].guard, journal);
    parts.atEnd(async () => resource.close());
    const away = new Set(lock.postgres?.hosts == null ? [] : (real.away ?? []));
    const processes = real.clients.map((each) => (typeof each === "string" ? [each] : each));
    const clients = await Promise.all(
      processes.map(async (names, i) => {
        const own = { scenario: id, arm: armName, names, ops: (i + 1) * OPS };
        const on = names.some((name) => away.has(name));
        return startClient(own, { lock, resource: resource.port, parts, away: on });
      }),
    );
    return {
      lock,
      resource,
      clients: new Map(
        clients.flatMap((child) => child.names.map((name) => [name, child] as const)),
      ),
      ways: parts.ways,
      clocks: parts.clocks,
      away,
      journal,
      files: [journalFile, ...processes.map((names) => fileOf(how, names))],
      close: async () => parts.close(),
    };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

function fileOf({ folder }: How, [name = ""]: readonly string[]): string {
  return join(folder, `${name}.ndjson`);
}

/** What a client process is among. */
interface Around {
  readonly lock: LockStore;
  readonly resource: number;
  readonly parts: Parts;
  readonly away: boolean;
}

/** A client process, with a way of its own to everything; or on a host of its own, with nothing but a wire to a server. */
async function startClient(
  own: Pick<WorkerSetup, "scenario" | "arm" | "names" | "ops">,
  around: Around,
): Promise<ClientChild> {
  const { lock, resource, parts, away } = around;
  const [name = ""] = own.names;
  const file = fileOf(parts.how, own.names);
  const { postgres } = lock;
  if (away && postgres?.hosts != null) {
    const url = postgres.awayUrl;
    const store = lock.url === null ? null : url;
    const nowhere = { redis: [], resource: 0, service: 0 };
    const setup = { ...own, ...nowhere, file, store, database: url };
    return await startIn(parts, async () => ClientChild.start(setup, {}, postgres.hosts?.client));
  }
  const ports = await Promise.all(
    lock.targets.map(async (to) => parts.lead(`${name}>${to.name}`, to.port, to.framing)),
  );
  const setup: WorkerSetup = {
    ...own,
    file,
    store: lock.url === null ? null : lock.url(ports),
    database: postgres === null ? null : postgres.url(ports[0]),
    redis: ports,
    resource: await parts.lead(`${name}>X`, resource, lineFraming),
    service: await parts.lead(`${name}>Y`, resource, lineFraming),
  };
  return await startIn(parts, async () => ClientChild.start(setup, parts.clockOf(name)?.env ?? {}));
}

async function startIn(parts: Parts, start: () => Promise<ClientChild>): Promise<ClientChild> {
  const child = await start();
  parts.atEnd(async () => child.kill());
  return child;
}
