import type { Clock } from "../../core/clock.ts";
import { DriverError } from "../../core/driver.ts";
import { dialerOf, type Outcome, type RedisClient } from "../redis/client.ts";
import type { Call } from "../redis/connection.ts";
import { Server } from "../redis/servers.ts";

/** One of the independent servers, as the rounds see it. */
export interface LockServer {
  /** For messages: `host:port` where that is known. */
  readonly label: string;
  /** What the client puts before its keys. */
  readonly keyPrefix: string;
  /** Several scripts in one write; the outcome of each. Never rejects; may not settle by `dueAt`. */
  runAll(calls: readonly Call[], dueAt: number): Promise<readonly Outcome[]>;
  /** One command that is no script. Rejects with its error; may not settle by `dueAt`. */
  send(args: readonly string[], dueAt: number): Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Connections of our own to the server of one client.
 * @throws DriverError for a client of a Cluster: its servers are not independent
 */
export async function connectTo(
  client: RedisClient,
  number: number,
  clock: Clock,
): Promise<LockServer> {
  const dialer = await dialerOf(client);
  const label = labelOf(client) ?? `server ${number}`;
  if (dialer.cluster)
    throw new DriverError(
      "config",
      "not-applied",
      `${label}: Redlock needs a client for each independent server, not one for a Cluster, whose servers decide together: use \`redisDriver\` there`,
    );
  const server = new Server(dialer, clock, null, undefined);
  return {
    label,
    keyPrefix: dialer.keyPrefix,
    runAll: async (calls, dueAt) => server.runAll(calls, "other", dueAt),
    send: async (args, dueAt) => (await server.connection(dueAt)).send(args, dueAt),
    close: async () => {
      await server.close();
      await dialer.close();
    },
  };
}

/** Where a client's settings lead, without its password. */
function labelOf(client: RedisClient): string | undefined {
  const { options } = client as { readonly options?: Readonly<Record<string, unknown>> };
  const { url, socket } = options ?? {};
  if (typeof url === "string" && URL.canParse(url)) return new URL(url).host;
  const { host, port, path } = { ...options, ...(socket as object | undefined) } as Readonly<
    Record<string, string | number | undefined>
  >;
  if (typeof path === "string") return path;
  return typeof host === "string" ? `${host}:${port ?? 6379}` : undefined;
}
