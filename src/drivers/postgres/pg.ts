/** Sessions by `pg` 8. */
import { CONNECT_TIMEOUT_MS, KEEPALIVE_MS } from "../sql/session.ts";
import type { Call } from "../sql/statement.ts";
import { APPLICATION_NAME, type Dialer, type Wire } from "./client.ts";

/** What is used of a `Client`. */
interface Client {
  readonly processID: number | null;
  readonly connection: { readonly stream: { destroy(): void } };
  connect(): Promise<unknown>;
  query(config: object): Promise<Result | readonly Result[]>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

interface Result {
  readonly rows: readonly (readonly unknown[])[];
}

type Settings = Readonly<Record<string, unknown>>;

/** The settings of a `Client` that say where to and as whom. */
const ADDRESS = ["host", "port", "database", "user", "ssl", "options", "sslnegotiation"] as const;

/**
 * What a user's pool may do to its own sessions and must not do to ours: client-side time limits that leave a statement
 * running and the session in use, and parsers of its own.
 */
const SAFE = {
  application_name: APPLICATION_NAME,
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEPALIVE_MS,
  query_timeout: 0,
  statement_timeout: 0,
  lock_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  types: undefined,
  pipeline: false,
  binary: false,
} as const;

class PgWire implements Wire {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  get pid(): number {
    return this.#client.processID ?? 0;
  }

  async run({ statement, args }: Call, prepare: boolean): Promise<readonly string[]> {
    const name = prepare ? { name: statement.name } : {};
    const config = { text: statement.text, values: [...args], rowMode: "array", ...name };
    return columns((await this.#client.query(config)) as Result);
  }

  async script(text: string): Promise<readonly string[]> {
    const results = await this.#client.query({ text, rowMode: "array" });
    return (Array.isArray(results) ? (results as readonly Result[]) : [results as Result]).flatMap(
      columns,
    );
  }

  async listen(channel: string, onMessage: (payload: string) => void): Promise<void> {
    this.#client.on("notification", (message: { readonly payload?: string }) => {
      onMessage(message.payload ?? "");
    });
    await this.script(`LISTEN "${channel}"`);
  }

  destroy(): void {
    this.#client.connection.stream.destroy();
  }
}

function columns(result: Result): readonly string[] {
  return result.rows.map((row) => row[0] as string);
}

/** The dialer of a `Pool` or a `Client`. */
export function pgDialer(client: unknown): Dialer {
  const make = makerOf(client as Readonly<Record<string, unknown>>);
  return {
    dial: async (onEnd) => {
      const made = make();
      let cause: unknown;
      // An `error` event that nobody hears would end the process.
      made.on("error", (error: unknown) => {
        cause ??= error;
      });
      made.on("end", () => {
        onEnd(cause);
      });
      try {
        await made.connect();
      } catch (error) {
        made.connection.stream.destroy();
        throw error;
      }
      return new PgWire(made);
    },
  };
}

function makerOf(client: Readonly<Record<string, unknown>>): () => Client {
  const pooled = typeof client["totalCount"] === "number";
  const Made = (pooled ? client["Client"] : client.constructor) as new (config: object) => Client;
  return () => new Made({ ...(pooled ? ofPool(client) : ofClient(client)), ...SAFE });
}

/** Secrets are properties that are not enumerated: they are read by name. */
function ofPool(pool: Readonly<Record<string, unknown>>): Settings {
  const options = pool["options"] as Settings;
  const { password, ssl } = options;
  return {
    ...options,
    ...(password === undefined ? {} : { password }),
    ...(ssl === undefined ? {} : { ssl }),
  };
}

function ofClient(client: Readonly<Record<string, unknown>>): Settings {
  const parameters = client["connectionParameters"] as Settings;
  const address = ADDRESS.flatMap((key) =>
    parameters[key] === undefined ? [] : [[key, parameters[key]]],
  );
  return { ...(Object.fromEntries(address) as Settings), password: client["password"] };
}
