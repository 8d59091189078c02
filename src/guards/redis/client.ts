import { InvalidArgumentError } from "../../core/errors.ts";

/** A client of `ioredis`: `Redis`, also with Sentinels, or `Cluster`. */
export interface IoredisConnection {
  readonly isCluster: boolean;
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** A client of `redis` (node-redis): what `createClient`, `createCluster` or `createSentinel` made, connected. */
export interface NodeRedisConnection {
  readonly isOpen: boolean;
  sendCommand(...args: never[]): Promise<unknown>;
}

/** What `redisStore` takes. It is used as it is, and never closed. */
export type RedisConnection = IoredisConnection | NodeRedisConnection;

/** Sends one command to the primary that has `key`. */
type Send = (key: string, args: readonly string[]) => Promise<unknown>;

/** A client as the guard uses it. */
export interface Wire {
  readonly send: Send;
  /** What is put before every key here, because the client does so only for its own methods. */
  readonly prefix: string;
}

/**
 * How a client sends a command. Everything goes out as a script, which no library sends to a replica, whatever it does
 * with reads otherwise.
 * @throws InvalidArgumentError for anything that is no client of either library
 */
export function wireOf(client: RedisConnection): Wire {
  const found = client as unknown as Record<string, unknown> | null;
  if (typeof found?.["call"] === "function" && "isCluster" in found) {
    const ioredis = client as IoredisConnection;
    // It knows where the keys of EVALSHA are: it prefixes them, and finds their server in a Cluster.
    return {
      prefix: "",
      send: async (_key, [command = "", ...args]) => ioredis.call(command, ...args),
    };
  }
  if (typeof found?.["sendCommand"] !== "function" || !("isOpen" in found))
    throw new InvalidArgumentError("Expected a client of `ioredis` or `redis` (node-redis).");
  const node = client as unknown as {
    sendCommand(...args: unknown[]): Promise<unknown>;
  };
  if ("masters" in found)
    return {
      prefix: prefixOf(found["_options"]),
      send: async (key, args) => node.sendCommand(key, false, args),
    };
  if ("getMasterNode" in found)
    return {
      prefix: prefixOf({ keyPrefix: found["_keyPrefix"] }),
      send: async (_key, args) => node.sendCommand(false, args),
    };
  return { prefix: prefixOf(found["options"]), send: async (_key, args) => node.sendCommand(args) };
}

function prefixOf(options: unknown): string {
  const prefix = (options as { readonly keyPrefix?: unknown } | null | undefined)?.keyPrefix;
  return typeof prefix === "string" || prefix instanceof Uint8Array ? prefix.toString() : "";
}
