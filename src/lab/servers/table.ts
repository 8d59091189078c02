import {
  type Answer,
  type Ask,
  type Backend,
  type Driver,
  type DriverContext,
  DriverError,
  type GrantRef,
  type Io,
  type Notice,
  type Release,
  type Renewal,
} from "../../core/driver.ts";
import { type MemoryCapabilities, memoryDriver } from "../../drivers/memory/index.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { LockPlace } from "./place.ts";
import { ServerTrace } from "./trace.ts";

/** Puts something between the links and the real backend: a planted fault. */
export type Tamper = (backend: Backend) => Backend;

export interface TableOptions {
  readonly tamper?: Tamper;
  /** A driver of its own for the server; the memory driver by default. */
  readonly makeDriver?: () => Driver<MemoryCapabilities>;
}

/**
 * A lock server: the production memory driver in a process of its own, reached over links that delay, lose and repeat.
 * Its leases end by its own machine's monotonic clock. A client's driver makes one attempt a call and waits for ever:
 * how long is core's business.
 */
export class TableServer implements LockPlace {
  readonly world: World;
  readonly name: string;
  process: SimProcess;
  readonly #options: TableOptions;
  readonly #trace: ServerTrace;
  #driver: Driver<MemoryCapabilities>;
  readonly #open = new Map<string, Backend | Promise<Backend>>();

  constructor(world: World, name: string, options: TableOptions = {}) {
    this.world = world;
    this.name = name;
    this.#options = options;
    this.process = world.start(name);
    this.#trace = new ServerTrace(world, () => this.process);
    this.#driver = this.#newDriver();
  }

  #newDriver(): Driver<MemoryCapabilities> {
    return this.#options.makeDriver?.() ?? memoryDriver();
  }

  /** Dies and starts again; what it kept is still there, or not. */
  restart(memory: "kept" | "lost"): void {
    this.world.kill(this.name);
    this.process = this.world.start(this.name);
    this.#open.clear();
    if (memory === "kept") return;
    this.#driver = this.#newDriver();
    this.#trace.forget();
  }

  startClient(name: string): SimProcess {
    return this.world.start(name);
  }

  /** What a client process opens. */
  driverFor(client: SimProcess): Driver<MemoryCapabilities> {
    return { ...this.#driver, open: async (context) => this.#connect(client, context) };
  }

  async #connect(client: SimProcess, context: DriverContext): Promise<Backend> {
    const { notify, namespace } = context;
    const key = `${client.host.id} ${namespace}`;
    const call = <T>(label: string, work: Work<T>): PromiseLike<T> =>
      this.world.net.call(
        client,
        () => this.process,
        label,
        (server): PromiseLike<T> => {
          const backend = this.#open.get(key);
          if (backend !== undefined && !(backend instanceof Promise)) return work(backend);
          return (backend ?? this.#accept(server, client, { key, namespace, notify })).then(work);
        },
      );
    return new RemoteBackend(call, this.#trace);
  }

  /** One connection per client process, as the server sees it. */
  async #accept(
    server: SimProcess,
    client: SimProcess,
    {
      key,
      namespace,
      notify,
    }: Pick<DriverContext, "namespace" | "notify"> & { readonly key: string },
  ): Promise<Backend> {
    const wake = (notice: Notice): void => {
      const deliver = (): void => {
        notify(notice);
      };
      this.#trace.notice(notice);
      this.world.net.send({ from: server, to: client, label: "wake", deliver });
    };
    const { clock, random, host } = server;
    const opening = this.#driver
      .open({ clock, random, host, namespace, notify: wake })
      .then((backend) => {
        const open = this.#options.tamper?.(backend) ?? backend;
        // Unless the server has been restarted meanwhile.
        if (this.#open.get(key) === opening) this.#open.set(key, open);
        return open;
      });
    this.#open.set(key, opening);
    return opening;
  }
}

type Work<T> = (backend: Backend) => Promise<T>;
export type Call = <T>(label: string, work: Work<T>) => PromiseLike<T>;

/** The client's side: every call is a message there and one back, and what the server did is written down. */
export class RemoteBackend implements Backend {
  readonly #call: Call;
  readonly #trace: ServerTrace;

  constructor(call: Call, trace: ServerTrace) {
    this.#call = call;
    this.#trace = trace;
  }

  async attempt(ask: Ask, io: Io): Promise<Answer> {
    return await this.#call("attempt", async (backend) => {
      const answer = await backend.attempt(ask, io);
      this.#trace.attempted(ask, answer);
      return answer;
    });
  }

  async renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]> {
    return await this.#call("renew", async (backend) => {
      const renewals = await backend.renew(grants, io);
      this.#trace.renewed(grants, renewals);
      return renewals;
    });
  }

  async release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]> {
    return await this.#call("release", async (backend) => {
      const releases = await backend.release(grants, io);
      this.#trace.released(grants, releases);
      return releases;
    });
  }

  async revoke(order: Parameters<Backend["revoke"]>[0], io: Io): Promise<Release> {
    return await this.#call("revoke", async (backend) => {
      const release = await backend.revoke(order, io);
      this.#trace.revoked(order, release);
      return release;
    });
  }

  async exchange(from: string, ask: Ask, io: Io): ReturnType<NonNullable<Backend["exchange"]>> {
    return await this.#call("exchange", async (backend) => {
      if (backend.exchange === undefined)
        throw new DriverError("config", "not-applied", "this server has no exchange");
      const answer = await backend.exchange(from, ask, io);
      if (answer.kind === "granted") this.#trace.attempted(ask, answer);
      return answer;
    });
  }

  async inspect(name: string, io: Io): ReturnType<Backend["inspect"]> {
    return await this.#call("inspect", async (backend) => backend.inspect(name, io));
  }

  async list(page: Parameters<Backend["list"]>[0], io: Io): ReturnType<Backend["list"]> {
    return await this.#call("list", async (backend) => backend.list(page, io));
  }

  async probe(): Promise<readonly []> {
    return [];
  }

  async close(): Promise<void> {
    return undefined;
  }
}
