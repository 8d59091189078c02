import { join } from "node:path";
import type { Arm, ArmName, Scenario } from "../scenarios/scenario.ts";
import { type Framing, rawFraming, redisFraming } from "./framing.ts";
import type { Journal } from "./journal.ts";
import type { Parts } from "./parts.ts";
import { PostgresArm } from "./postgres-arm.ts";
import { RedisProcess } from "./redis-process.ts";

/** A server that every client has a way to. */
interface Target {
  readonly name: string;
  readonly port: number;
  readonly framing: () => Framing;
}

/** Where the lock of one arm is. */
export interface LockStore {
  readonly targets: readonly Target[];
  /** Ringfence's store by the ports that lead to those; `null` where the lock is written by hand. */
  readonly url: ((ports: readonly number[]) => string) | null;
  /** The same store past every proxy, at a server's port. Who only looks demands nothing of it. */
  readonly lookAt: (port: number) => string;
  /** Redis servers; the first is the primary. None where the store is another one. */
  readonly redis: RedisProcess[];
  readonly postgres: PostgresArm | null;
}

/** Starts what the lock of an arm needs: Redis servers, a PostgreSQL, or a file's folder. */
export async function openStore(
  scenario: Scenario,
  armName: ArmName,
  { parts, journal }: { readonly parts: Parts; readonly journal: Journal },
): Promise<LockStore> {
  const { lock } = scenario.arms[armName];
  if (lock.kind === "postgres") return await inPostgres(scenario, armName, { parts, journal });
  const ours = lock.kind === "core" || lock.kind === "quorum";
  if (ours && parts.how.store === "sqlite")
    return apart(`sqlite:${encodeURI(join(parts.how.folder, "locks.db"))}`);
  if (ours && parts.how.store === "postgres") {
    const postgres = await databaseOf(scenario, armName, { parts, journal });
    return apart(postgres.url(postgres.port));
  }
  return await inRedis(scenario, armName, parts);
}

/** A store that nothing is done to, so that no proxy stands before it. */
function apart(store: string): LockStore {
  const url = (): string => store;
  return { targets: [], url, lookAt: url, redis: [], postgres: null };
}

async function inPostgres(
  scenario: Scenario,
  armName: ArmName,
  how: { readonly parts: Parts; readonly journal: Journal },
): Promise<LockStore> {
  const { lock } = scenario.arms[armName];
  const postgres = await databaseOf(scenario, armName, how);
  const url = ([port]: readonly number[]): string => postgres.url(port);
  return {
    targets: [{ name: "S", port: postgres.port, framing: rawFraming }],
    url: lock.kind === "postgres" && lock.habits !== undefined ? null : url,
    lookAt: (port) => postgres.url(port),
    redis: [],
    postgres,
  };
}

/** A database of the arm's own. */
async function databaseOf(
  { id, real, arms }: Scenario,
  armName: ArmName,
  { parts, journal }: { readonly parts: Parts; readonly journal: Journal },
): Promise<PostgresArm> {
  const { lock } = arms[armName];
  const postgres = await PostgresArm.open(parts.how.postgres, journal, {
    database: `${id}_${armName}`.toLowerCase(),
    options: lock.kind === "postgres" ? (lock.server ?? {}) : {},
    away: real?.away !== undefined,
  });
  parts.atEnd(async () => postgres.close());
  return postgres;
}

async function inRedis(scenario: Scenario, armName: ArmName, parts: Parts): Promise<LockStore> {
  const arm = scenario.arms[armName];
  const { lock } = arm;
  const query = scenario.real?.query === undefined ? "" : `?${scenario.real.query}`;
  const redis = await startServers(countOf(scenario, arm), parts);
  if (lock.kind !== "quorum" && lock.kind !== "redlock") await copyAll(redis, parts);
  const lookAt = (port: number): string => `redis://127.0.0.1:${port}`;
  const url = (ports: readonly number[]): string =>
    lock.kind === "quorum"
      ? `redlock:${ports.map(lookAt).join(",")}?quorum=${lock.quorum}`
      : lookAt(ports[0] ?? 0) + query;
  return {
    targets: redis.map(({ name, port }) => ({ name, port, framing: redisFraming })),
    url: lock.kind === "core" || lock.kind === "quorum" ? url : null,
    lookAt,
    redis,
    postgres: null,
  };
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
      const server = await RedisProcess.start(name, folder, parts.clockOf(name));
      parts.atEnd(async () => server.kill());
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
      const port = await parts.lead(`${replica.name}>${primary.name}`, primary.port, rawFraming);
      await replica.copy(port, primary, replicas.length);
    }),
  );
}
