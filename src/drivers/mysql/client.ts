import { InvalidArgumentError } from "../../core/errors.ts";

/** A `Pool` of `mysql2` or `mysql2/promise`. Only its settings are used. */
export interface MysqlPool {
  getConnection(...args: never[]): unknown;
}

/** A `Connection` of `mysql2` or `mysql2/promise`. Only its settings are used. */
export interface MysqlConnection {
  readonly config: object;
  query(...args: never[]): unknown;
}

/** What the driver takes. It need not be connected, and it is never closed or otherwise touched. */
export type MysqlClient = MysqlPool | MysqlConnection;

/** What a statement that answers no rows came to. */
export interface Effect {
  /** How many rows it changed or matched. */
  readonly rows: number;
  /** The number that it left behind by LAST_INSERT_ID(number), as text; "0" where there is none. */
  readonly left: string;
}

/** What one statement of a message came to: its rows, all columns as text, or its effect. */
export type Result = readonly (readonly (string | null)[])[] | Effect;

/** One session of ours, without a queue, retries or a second life: when it ends, it has ended. One request at a time. */
export interface Wire {
  /** The number of the session that the server, or a proxy in its name, gave at start-up. */
  readonly id: number;
  /** Several statements in one message; it stops at the first that fails. */
  script(text: string): Promise<readonly Result[]>;
  /** Ends it at once, whatever is under way. */
  destroy(): void;
}

/** Makes sessions with the settings of a user's client. `onEnd` is called once, when the session has ended. */
export type Dialer = (onEnd: (cause: unknown) => void) => Promise<Wire>;

/** Settings of `createConnection`. */
export type Settings = Readonly<Record<string, unknown>>;

/** The settings that say where to and as whom. */
const ADDRESS = [
  "host",
  "port",
  "socketPath",
  "user",
  "password",
  "password1",
  "password2",
  "password3",
  "passwordSha1",
  "database",
  "ssl",
  "stream",
  "authPlugins",
  "insecureAuth",
  "enableCleartextPlugin",
] as const;

/**
 * Where a client leads, without what its user set for sessions of their own.
 * @throws InvalidArgumentError for what is no client of mysql2
 */
export function addressOf(client: unknown): Settings {
  const config = settingsOf(client);
  if (config === undefined)
    throw new InvalidArgumentError(
      "Expected a Pool or Connection of `mysql2` or `mysql2/promise`.",
    );
  return Object.fromEntries(
    ADDRESS.flatMap((key) =>
      config[key] === undefined || config[key] === null ? [] : [[key, config[key]]],
    ),
  );
}

/** The settings of a connection, of a pool, or of what `mysql2/promise` wraps. */
function settingsOf(client: unknown): Settings | undefined {
  const { config, pool, connection } = fieldsOf(client);
  if (config !== undefined) {
    const inner = fieldsOf(config)["connectionConfig"] ?? config;
    if (typeof inner === "object" && inner !== null && "clientFlags" in inner) return inner;
    return undefined;
  }
  const wrapped = pool ?? connection;
  return wrapped === undefined ? undefined : settingsOf(wrapped);
}

function fieldsOf(value: unknown): Settings {
  const there = (typeof value === "object" && value !== null) || typeof value === "function";
  return there ? (value as Settings) : {};
}
