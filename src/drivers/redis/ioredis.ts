/** Connections by `ioredis` 5 and 6. */
import {
  type Address,
  CONNECT_TIMEOUT_MS,
  clusterUnreachable,
  type Dialer,
  has,
  type Outcome,
  prefixOf,
  type Wire,
} from "./client.ts";

/** What is used of a `Redis`. */
interface Redis {
  readonly options: Readonly<Record<string, unknown>>;
  readonly stream?: { destroy(): void; cork(): void; uncork(): void };
  duplicate(overrides: object): Redis;
  connect(): Promise<void>;
  disconnect(): void;
  call(command: string, ...args: string[]): Promise<unknown>;
  pipeline(commands: readonly (readonly string[])[]): {
    exec(): Promise<readonly (readonly [Error | null, unknown])[] | null>;
  };
  subscribe(channel: string): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/** What is used of a `Cluster`. */
interface Cluster {
  readonly options: { readonly natMap?: unknown; readonly redisOptions?: object };
  duplicate(nodes: readonly unknown[], options: object): Cluster;
  nodes(role: "all"): readonly Redis[];
  connect(): Promise<void>;
  disconnect(): void;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/**
 * No offline queue, no retries, no reconnection: a command is sent now or refused, and its connection is made anew by
 * us, never under a command that may have been sent before.
 */
const SAFE = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: null,
  reconnectOnError: null,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  enableAutoPipelining: false,
  commandTimeout: undefined,
  blockingTimeout: undefined,
  socketTimeout: undefined,
  sentinelRetryStrategy: null,
  connectTimeout: CONNECT_TIMEOUT_MS,
  keyPrefix: "",
  readOnly: false,
  monitor: false,
  stringNumbers: false,
  scripts: undefined,
} as const;

function nothing(): void {
  // Errors are told by the promises of the calls and by the end of the connection.
}

class IoredisWire implements Wire {
  readonly #redis: Redis;
  #corked = false;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  send(args: readonly string[], alone = false): PromiseLike<unknown> {
    if (!alone) this.#gather();
    return this.#redis.call(...(args as [string, ...string[]]));
  }

  /** This library writes each command by itself; those of one turn leave together. */
  #gather(): void {
    const { stream } = this.#redis;
    if (this.#corked || stream === undefined) return;
    this.#corked = true;
    stream.cork();
    process.nextTick(() => {
      this.#corked = false;
      stream.uncork();
    });
  }

  async sendAll(batch: readonly (readonly string[])[]): Promise<readonly Outcome[]> {
    const replies = await this.#redis.pipeline(batch.map((args) => ["call", ...args])).exec();
    return (replies ?? []).map(([error, value]) =>
      error === null ? { ok: true, value } : { ok: false, error },
    );
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#redis.on("message", (_channel: string, message: string) => {
      onMessage(message);
    });
    await this.#redis.subscribe(channel);
  }

  destroy(): void {
    const { stream } = this.#redis;
    this.#redis.disconnect();
    // It would only say goodbye, which a silent link never answers.
    stream?.destroy();
  }
}

async function open(redis: Redis, onEnd: (cause: unknown) => void): Promise<Wire> {
  let cause: unknown;
  redis.on("error", (error: unknown) => {
    cause = error;
  });
  redis.on("end", () => {
    onEnd(cause);
  });
  const wire = new IoredisWire(redis);
  try {
    await redis.connect();
  } catch (error) {
    wire.destroy();
    throw cause ?? error;
  }
  return wire;
}

/** The dialer of a `Redis` or a `Cluster`. */
export function ioredisDialer(client: unknown): Dialer {
  const { isCluster } = client as { isCluster?: boolean };
  return isCluster === true
    ? new ClusterDialer(client as Cluster)
    : new SingleDialer(client as Redis);
}

class SingleDialer implements Dialer {
  readonly cluster = false;
  readonly keyPrefix: string;
  readonly #template: Redis;

  constructor(template: Redis) {
    this.#template = template;
    this.keyPrefix = prefixOf(template.options);
  }

  async seeds(): Promise<readonly Address[]> {
    return [];
  }

  map(address: Address): Address {
    return address;
  }

  async dial(_address: Address | null, onEnd: (cause: unknown) => void): Promise<Wire> {
    // With Sentinels the check also asks whether this is the primary; elsewhere LOADING is a reply like any other.
    const enableReadyCheck = Array.isArray(this.#template.options["sentinels"]);
    return await open(this.#template.duplicate({ ...SAFE, enableReadyCheck }), onEnd);
  }

  async close(): Promise<void> {
    // Nothing of its own.
  }
}

class ClusterDialer implements Dialer {
  readonly cluster = true;
  readonly keyPrefix: string;
  readonly #client: Cluster;
  #template: Redis | undefined;

  constructor(client: Cluster) {
    this.#client = client;
    this.keyPrefix = prefixOf(client.options) || prefixOf(client.options.redisOptions);
  }

  async seeds(): Promise<readonly Address[]> {
    const scout = this.#client.duplicate([], {
      lazyConnect: true,
      enableOfflineQueue: false,
      clusterRetryStrategy: null,
    });
    scout.on("error", nothing);
    try {
      await scout.connect();
      const nodes = scout.nodes("all");
      this.#template = nodes[0];
      return nodes.map(({ options }) => ({
        host: String(options["host"]),
        port: Number(options["port"]),
      }));
    } catch (error) {
      throw clusterUnreachable(error);
    } finally {
      scout.disconnect();
    }
  }

  map(address: Address): Address {
    const { natMap } = this.#client.options;
    const key = `${address.host}:${address.port}`;
    const mapped: unknown =
      typeof natMap === "function"
        ? (natMap as (key: string) => unknown)(key)
        : (natMap as Record<string, unknown> | undefined)?.[key];
    return (mapped as Address | null | undefined) ?? address;
  }

  async dial(address: Address | null, onEnd: (cause: unknown) => void): Promise<Wire> {
    if (this.#template === undefined || !has(this.#template, "duplicate"))
      throw clusterUnreachable(undefined);
    const redis = this.#template.duplicate({ ...SAFE, enableReadyCheck: false, ...address });
    return await open(redis, onEnd);
  }

  async close(): Promise<void> {
    // The scout was closed when it came back.
  }
}
