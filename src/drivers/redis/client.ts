import { DriverError } from "../../core/driver.ts";
import { InvalidArgumentError } from "../../core/errors.ts";

/** A client of `ioredis`: `Redis`, also with Sentinels, or `Cluster`. Only its settings are used. */
export interface IoredisClient {
  readonly options: object;
  readonly isCluster: boolean;
  readonly status: string;
  duplicate(...overrides: never[]): unknown;
}

/** A client of `redis` (node-redis): `createClient`, `createCluster` or `createSentinel`. Only its settings are used. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  duplicate(...overrides: never[]): unknown;
}

/** What `redisDriver` takes. It need not be connected, and it is never closed or otherwise touched by the driver. */
export type RedisClient = IoredisClient | NodeRedisClient;

/** Where a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * One connection to one server, without a queue, retries or a second life: when it ends, it has ended. Replies come in
 * the order of the commands.
 */
export interface Wire {
  /**
   * Rejects with the server's error reply, or with whatever the library says when the connection ends. Unless it is
   * `alone` it may be written together with others of this turn of the event loop.
   */
  send(args: readonly string[], alone?: boolean): PromiseLike<unknown>;
  /** Several commands in one write: the reply or the error of each. */
  sendAll(batch: readonly (readonly string[])[]): Promise<readonly Outcome[]>;
  /** Once, before anything else: the connection is for messages only from then on. */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<void>;
  /** Ends it at once, whatever is under way. */
  destroy(): void;
}

/** One reply of a batch. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

/** Makes connections with the settings of a user's client. */
export interface Dialer {
  /** What the user's client puts before every key; our wires don't. */
  readonly keyPrefix: string;
  /** The settings come from a client for a Cluster. */
  readonly cluster: boolean;
  /** Servers to ask for the slots of a Cluster. */
  seeds(): Promise<readonly Address[]>;
  /** How a Cluster's own address is reached from here. */
  map(address: Address): Address;
  /**
   * Connects: to this server of a Cluster, or to wherever the client's settings lead, Sentinels asked anew.
   * `onEnd` is called once, when the connection has ended for whatever reason. Rejects with the cause.
   */
  dial(address: Address | null, onEnd: (cause: unknown) => void): Promise<Wire>;
  close(): Promise<void>;
}

/** The settings of every connection of ours, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 5000;

/** Has this method. */
export function has<K extends string>(
  value: unknown,
  method: K,
): value is Record<K, (...args: unknown[]) => unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Record<string, unknown>)[method] === "function"
  );
}

/** A key prefix as text; libraries also take buffers. */
export function prefixOf(options: unknown): string {
  const prefix = (options as { keyPrefix?: string | Buffer } | undefined)?.keyPrefix;
  return prefix === undefined ? "" : prefix.toString();
}

/** Reads `host:port`, IPv6 included; a Cluster that does not know its own name leaves the host out. */
export function parseAddress(text: string, fallbackHost: string): Address {
  const at = text.lastIndexOf(":");
  const host = text.slice(0, at).replace(/^\[|\]$/g, "");
  return {
    host: host === "" || host === "?" ? fallbackHost : host,
    port: Number(text.slice(at + 1)),
  };
}

/**
 * Which library a client is of, and connections with its settings.
 * @throws InvalidArgumentError for anything else
 */
export async function dialerOf(client: RedisClient): Promise<Dialer> {
  if (!has(client, "duplicate"))
    throw new InvalidArgumentError("Expected a client of `ioredis` or `redis` (node-redis).");
  if (has(client, "call") && "status" in client) {
    const { ioredisDialer } = await import("./ioredis.ts");
    return ioredisDialer(client);
  }
  if (has(client, "sendCommand") && "isOpen" in client) {
    const { nodeRedisDialer } = await import("./node-redis.ts");
    return nodeRedisDialer(client);
  }
  throw new InvalidArgumentError("Expected a client of `ioredis` or `redis` (node-redis).");
}

/** No address of a Cluster could be learned. */
export function clusterUnreachable(cause: unknown): DriverError {
  return new DriverError(
    "unavailable",
    "not-applied",
    "no server of the Cluster could be reached",
    {
      cause,
    },
  );
}
