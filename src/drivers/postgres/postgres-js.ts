/** Sessions by `postgres` (postgres.js) 3. */
import { connect, isIP, type Socket } from "node:net";
import { CONNECT_TIMEOUT_MS, KEEPALIVE_MS } from "../sql/session.ts";
import type { Call } from "../sql/statement.ts";
import { APPLICATION_NAME, type Dialer, type Wire } from "./client.ts";

/** What is used of an instance. */
interface Sql {
  unsafe(text: string, args?: readonly unknown[], options?: object): Pending;
  end(options: { readonly timeout: number }): Promise<void>;
}

interface Pending extends Promise<unknown> {
  values(): Promise<Rows & { readonly state?: { readonly pid?: number } }>;
}

type Rows = readonly (readonly unknown[])[];
type Factory = (options: object) => Sql;

/** An instance's settings, parsed. */
interface Settings {
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path?: string | false;
  readonly socket?: (options: object) => Promise<Socket> | Socket;
  readonly connection?: object;
}

const PLAIN = { from: undefined, to: undefined };

/** One session that has no second life and no parsers of the user's. */
const SAFE = {
  max: 1,
  idle_timeout: null,
  max_lifetime: null,
  connect_timeout: CONNECT_TIMEOUT_MS / 1000,
  keep_alive: KEEPALIVE_MS / 1000,
  fetch_types: false,
  prepare: true,
  debug: false,
  onparameter: undefined,
  onnotice: () => undefined,
  transform: { undefined, column: PLAIN, value: PLAIN, row: PLAIN },
} as const;

class PostgresJsWire implements Wire {
  readonly pid: number;
  readonly #sql: Sql;
  readonly #session: Session;

  constructor(sql: Sql, session: Session, pid: number) {
    this.#sql = sql;
    this.#session = session;
    this.pid = pid;
  }

  async run({ statement, args }: Call, prepare: boolean): Promise<readonly string[]> {
    return columns(await this.#sql.unsafe(statement.text, [...args], { prepare }).values());
  }

  async script(text: string): Promise<readonly string[]> {
    const rows: unknown = await this.#sql.unsafe(text).values();
    // One statement gives its rows, several give a list of them, and only results tell how many rows they have.
    const several = Array.isArray(rows) && !("count" in rows);
    return (several ? (rows as readonly Rows[]) : [rows as Rows]).flatMap(columns);
  }

  async listen(channel: string, onMessage: (payload: string) => void): Promise<void> {
    this.#session.onMessage = onMessage;
    await this.script(`LISTEN "${channel}"`);
  }

  destroy(): void {
    this.#session.end();
  }
}

function columns(rows: Rows): readonly string[] {
  // Not by `map`: the library's results are a class of their own, and so would be what it makes.
  const values: string[] = [];
  for (const row of rows) values.push(row[0] as string);
  return values;
}

/** What the callbacks of one instance share. */
interface Session {
  onMessage: (payload: string) => void;
  end(): void;
}

/** The dialer of an instance. */
export async function postgresJsDialer(client: unknown): Promise<Dialer> {
  const { default: postgres } = (await import("postgres")) as unknown as {
    readonly default: Factory;
  };
  const { options } = client as { readonly options: Settings };
  let next = 0;
  return {
    dial: async (onEnd) => {
      const at = next;
      next += 1;
      return await dial(postgres, options, at, onEnd);
    },
  };
}

async function dial(
  postgres: Factory,
  options: Settings,
  at: number,
  onEnd: (cause: unknown) => void,
): Promise<Wire> {
  const sockets: Socket[] = [];
  let ended = false;
  const session: Session = {
    onMessage: () => undefined,
    end: () => {
      // The library only says goodbye, which a silent link never answers.
      for (const socket of sockets) socket.destroy();
      void sql.end({ timeout: 0 });
      if (ended) return;
      ended = true;
      onEnd(undefined);
    },
  };
  const sql = postgres({
    ...options,
    ...SAFE,
    connection: { ...options.connection, application_name: APPLICATION_NAME },
    shared: { retries: 0, typeArrayMap: {} },
    onnotify: (_channel: string, payload: string) => {
      session.onMessage(payload);
    },
    onclose: () => {
      session.end();
    },
    socket: async () => {
      // It would connect again by itself, under a statement that may have been sent before.
      if (ended || sockets.length > 0) throw new Error("the session has ended");
      const socket = await socketOf(options, at);
      sockets.push(socket);
      return socket;
    },
  });
  try {
    const { state } = await sql.unsafe("SELECT 1").values();
    return new PostgresJsWire(sql, session, state?.pid ?? 0);
  } catch (error) {
    session.end();
    throw error;
  }
}

/** Of several hosts each session tries the next one. */
async function socketOf(options: Settings, at: number): Promise<Socket> {
  if (options.socket !== undefined) return await options.socket(options);
  const host = options.host[at % options.host.length] ?? "localhost";
  const port = options.port[at % options.port.length] ?? 5432;
  const { path } = options;
  const socket = typeof path === "string" ? connect(path) : connect(port, host);
  // The library reads the server's name for TLS from here.
  if (isIP(host) === 0) Object.assign(socket, { host });
  return await new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}
