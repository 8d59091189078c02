import { InvalidArgumentError } from "../../core/errors.ts";
import type { Call } from "../sql/statement.ts";

/** A `Pool` of `pg`. Only its settings are used. */
export interface PgPool {
  readonly options: object;
  readonly totalCount: number;
  connect(): Promise<unknown>;
}

/** A `Client` of `pg`. Only its settings are used. */
export interface PgClient {
  readonly database?: string | undefined;
  readonly host: string;
  readonly port: number;
  connect(): Promise<unknown>;
}

/** What `postgres` returns. Only its settings are used. */
export interface PostgresJs {
  readonly options: object;
  unsafe(query: string): unknown;
  reserve(): Promise<unknown>;
}

/** What the drivers take. It need not be connected, and it is never closed or otherwise touched. */
export type PostgresClient = PgPool | PgClient | PostgresJs;

/** One session of ours, without a queue, retries or a second life: when it ends, it has ended. One request at a time. */
export interface Wire {
  /** The pid that the server, or a pooler in its name, gave at start-up. */
  readonly pid: number;
  /** One statement by the extended protocol; `prepare` keeps its plan under its name. The first column of each row. */
  run(call: Call, prepare: boolean): Promise<readonly string[]>;
  /** Several statements in one message: one implicit transaction. The first column of every row, in order. */
  script(text: string): Promise<readonly string[]>;
  /** Once: what is notified on the channel. */
  listen(channel: string, onMessage: (payload: string) => void): Promise<void>;
  /** Ends it at once, whatever is under way. */
  destroy(): void;
}

/** Makes sessions with the settings of a user's client. */
export interface Dialer {
  /** `onEnd` is called once, when the session has ended for whatever reason. Rejects with the cause. */
  dial(onEnd: (cause: unknown) => void): Promise<Wire>;
}

/** How sessions show in `pg_stat_activity`. */
export const APPLICATION_NAME = "ringfence";

function has(value: unknown, ...methods: string[]): boolean {
  return (
    value !== null &&
    (typeof value === "object" || typeof value === "function") &&
    methods.every((method) => typeof (value as Record<string, unknown>)[method] === "function")
  );
}

/**
 * Sessions with the settings of a client, by the library that it is of.
 * @throws InvalidArgumentError, at once, for anything else
 */
export function dialerOf(client: PostgresClient): () => Promise<Dialer> {
  if (has(client, "unsafe", "reserve"))
    return async () => (await import("./postgres-js.ts")).postgresJsDialer(client);
  if (has(client, "connect", "query"))
    return async () => (await import("./pg.ts")).pgDialer(client);
  throw new InvalidArgumentError(
    "Expected a Pool or Client of `pg`, or what `postgres` (postgres.js) returns.",
  );
}
