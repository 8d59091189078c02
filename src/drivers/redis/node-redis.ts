/** Connections by `redis` (node-redis). */
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

/** What is used of a client for one server. */
interface Client {
  readonly options: Readonly<Record<string, unknown>> & {
    readonly socket?: Readonly<Record<string, unknown>>;
  };
  duplicate(overrides: object): Client;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: readonly string[]): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<void>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/** What is used of a Cluster client. */
interface Cluster {
  readonly masters: readonly (Address & object)[];
  readonly replicas: readonly (Address & object)[];
  readonly _options?: { readonly keyPrefix?: string; readonly nodeAddressMap?: unknown };
  duplicate(overrides: object): Cluster;
  connect(): Promise<unknown>;
  destroy(): void;
  nodeClient(node: object): Promise<Client> | Client;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/** What is used of a Sentinel client. All of its commands go through `_execute`, which lends the primary's client. */
interface Sentinel {
  readonly _keyPrefix?: string | Buffer;
  duplicate(overrides: object): Sentinel;
  connect(): Promise<unknown>;
  destroy(): Promise<void>;
  _execute<T>(isReadonly: boolean, use: (client: Client) => Promise<T>): Promise<T>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

function nothing(): void {
  // Errors are told by the promises of the calls and by the end of the connection.
}

/** No offline queue and no reconnection, which is also when this library would send a command again. */
function safe(template: Client, address: Address | null): object {
  const socket = {
    ...template.options.socket,
    ...address,
    reconnectStrategy: false,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: undefined,
  };
  return {
    url: undefined,
    socket,
    disableOfflineQueue: true,
    keyPrefix: undefined,
    pingInterval: undefined,
    readonly: false,
    commandOptions: {},
    commandsQueueMaxLength: undefined,
    clientSideCache: undefined,
    emitInvalidate: false,
  };
}

class NodeRedisWire implements Wire {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  send(args: readonly string[]): PromiseLike<unknown> {
    return this.#client.sendCommand(args);
  }

  async sendAll(batch: readonly (readonly string[])[]): Promise<readonly Outcome[]> {
    // Commands of one turn leave in one write.
    return await Promise.all(
      batch.map(async (args): Promise<Outcome> => {
        try {
          return { ok: true, value: await this.#client.sendCommand(args) };
        } catch (error) {
          return { ok: false, error };
        }
      }),
    );
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    await this.#client.subscribe(channel, onMessage);
  }

  destroy(): void {
    this.#client.destroy();
  }
}

async function open(client: Client, onEnd: (cause: unknown) => void): Promise<Wire> {
  let [cause, over]: [unknown, boolean] = [undefined, false];
  const end = (error?: unknown): void => {
    cause = error ?? cause;
    if (over) return;
    over = true;
    onEnd(cause);
  };
  // Without reconnection an error of the socket is its end.
  client.on("error", end);
  client.on("end", end);
  try {
    await client.connect();
  } catch (error) {
    client.destroy();
    throw error ?? cause;
  }
  return new NodeRedisWire(client);
}

/** The dialer of what `createClient`, `createCluster` or `createSentinel` made. */
export function nodeRedisDialer(client: unknown): Dialer {
  if (has(client, "nodeClient")) return new ClusterDialer(client as unknown as Cluster);
  if (has(client, "getMasterNode")) return new SentinelDialer(client as unknown as Sentinel);
  return new SingleDialer(client as Client);
}

class SingleDialer implements Dialer {
  readonly cluster = false;
  readonly keyPrefix: string;
  readonly #template: Client;

  constructor(template: Client) {
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
    return await open(this.#template.duplicate(safe(this.#template, null)), onEnd);
  }

  async close(): Promise<void> {
    // Nothing of its own.
  }
}

/** A client of its own watches the Sentinels; our connections go where it finds the primary. */
class SentinelDialer implements Dialer {
  readonly cluster = false;
  readonly keyPrefix: string;
  readonly #client: Sentinel;
  #scout: Promise<Sentinel> | undefined;

  constructor(client: Sentinel) {
    this.#client = client;
    this.keyPrefix = prefixOf({ keyPrefix: client._keyPrefix });
  }

  async seeds(): Promise<readonly Address[]> {
    return [];
  }

  map(address: Address): Address {
    return address;
  }

  async dial(_address: Address | null, onEnd: (cause: unknown) => void): Promise<Wire> {
    const scout = await this.#watch();
    const primary = await scout._execute(false, async (client) => Promise.resolve({ client }));
    return await open(primary.client.duplicate(safe(primary.client, null)), onEnd);
  }

  async close(): Promise<void> {
    const scout = await this.#scout?.catch(nothing);
    await scout?.destroy();
  }

  async #watch(): Promise<Sentinel> {
    this.#scout ??= this.#connect();
    return await this.#scout;
  }

  async #connect(): Promise<Sentinel> {
    const scout = this.#client.duplicate({ reserveClient: false, maxCommandRediscovers: 2 });
    scout.on("error", nothing);
    try {
      await scout.connect();
      return scout;
    } catch (error) {
      this.#scout = undefined;
      throw error;
    }
  }
}

class ClusterDialer implements Dialer {
  readonly cluster = true;
  readonly keyPrefix: string;
  readonly #client: Cluster;
  #template: Client | undefined;

  constructor(client: Cluster) {
    this.#client = client;
    this.keyPrefix = prefixOf(client._options);
  }

  async seeds(): Promise<readonly Address[]> {
    const scout = this.#client.duplicate({ minimizeConnections: true });
    scout.on("error", nothing);
    try {
      await scout.connect();
      const nodes = [...scout.masters, ...scout.replicas];
      const [first] = nodes;
      if (first === undefined) throw clusterUnreachable(undefined);
      this.#template = await scout.nodeClient(first);
      return nodes.map(({ host, port }) => ({ host, port }));
    } catch (error) {
      throw clusterUnreachable(error);
    } finally {
      scout.destroy();
    }
  }

  map(address: Address): Address {
    const map = this.#client._options?.nodeAddressMap;
    const key = `${address.host}:${address.port}`;
    const mapped: unknown =
      typeof map === "function"
        ? (map as (key: string) => unknown)(key)
        : (map as Record<string, unknown> | undefined)?.[key];
    return (mapped as Address | undefined) ?? address;
  }

  async dial(address: Address | null, onEnd: (cause: unknown) => void): Promise<Wire> {
    if (this.#template === undefined) throw clusterUnreachable(undefined);
    return await open(this.#template.duplicate(safe(this.#template, address)), onEnd);
  }

  async close(): Promise<void> {
    // The scout was closed when it came back.
  }
}
