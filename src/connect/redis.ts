import type { Driver } from "../core/driver.ts";
import { BackendConfigError } from "../core/errors.ts";
import type { RedisClient } from "../drivers/redis/index.ts";

/** How a Redis store is asked for in a URL. */
export interface RedisUrlOptions {
  readonly replicas: number;
  readonly efficiencyOnly: boolean;
  /** The address is one server of a Cluster. */
  readonly cluster: boolean;
}

/**
 * The driver for `redis://` and `rediss://` URLs, with whichever of `ioredis` and `redis` (node-redis) is installed.
 * The client that it makes carries settings only and never connects, so there is nothing to close.
 * @throws BackendConfigError that says what to install
 */
export async function redisFromUrl(url: string, options: RedisUrlOptions): Promise<Driver> {
  const { redisDriver } = await import("../drivers/redis/index.ts");
  const { replicas, efficiencyOnly } = options;
  return redisDriver(await clientFor("redis", url, options.cluster), { replicas, efficiencyOnly });
}

/**
 * The driver for `redlock:` URLs, likewise.
 * @throws BackendConfigError that says what to install
 * @throws InvalidArgumentError for too few servers, or a quorum of half or less
 */
export async function redlockFromUrls(
  urls: readonly string[],
  options: { readonly quorum: number | null; readonly efficiencyOnly: boolean },
): Promise<Driver> {
  const { redlockDriver } = await import("../drivers/redlock/index.ts");
  const clients: RedisClient[] = [];
  for (const url of urls) clients.push(await clientFor("redlock", url, false));
  const { quorum, efficiencyOnly } = options;
  return redlockDriver(clients, { efficiencyOnly, ...(quorum === null ? {} : { quorum }) });
}

async function clientFor(scheme: string, url: string, cluster: boolean): Promise<RedisClient> {
  const client =
    (await installed(async () => byIoredis(url, cluster))) ??
    (await installed(async () => byNodeRedis(url, cluster)));
  if (client !== undefined) return client;
  throw new BackendConfigError(
    `${scheme}: needs a client library: npm install ioredis (or: npm install redis)`,
    { operation: "open", outcome: "not-applied", cause: undefined },
  );
}

async function installed(make: () => Promise<RedisClient>): Promise<RedisClient | undefined> {
  try {
    return await make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

async function byIoredis(url: string, cluster: boolean): Promise<RedisClient> {
  const { Cluster, Redis } = await import("ioredis");
  if (!cluster) return new Redis(url, { lazyConnect: true });
  const { hostname, port, username, password, protocol } = new URL(url);
  const credentials = {
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === "rediss:" ? { tls: {} } : {}),
  };
  const node = { host: hostname, port: port === "" ? 6379 : Number(port) };
  return new Cluster([node], { lazyConnect: true, redisOptions: credentials });
}

async function byNodeRedis(url: string, cluster: boolean): Promise<RedisClient> {
  const { createClient, createCluster } = await import("redis");
  if (!cluster) return createClient({ url });
  const { username, password, protocol } = new URL(url);
  return createCluster({
    rootNodes: [{ url }],
    defaults: {
      ...(username === "" ? {} : { username: decodeURIComponent(username) }),
      ...(password === "" ? {} : { password: decodeURIComponent(password) }),
      ...(protocol === "rediss:" ? { socket: { tls: true } } : {}),
    },
  });
}
