import type { Clock } from "../../core/clock.ts";
import type { Address, Dialer, Outcome } from "./client.ts";
import { parseAddress } from "./client.ts";
import { type Asker, type Call, type Connection, Lane } from "./connection.ts";
import { codeOf, LinkError } from "./errors.ts";
import { SLOTS, slotOf } from "./keys.ts";
import { type ReplicaRule, Replicated } from "./replicas.ts";

/** How often a call follows a Cluster that sends it elsewhere. */
const REDIRECTS = 5;

/**
 * Which connection a call uses. Acquires and renewals have their own only where each waits for replicas: such a
 * connection is blocked meanwhile, and a renewal behind it would come late.
 */
export type Purpose = "acquire" | "renew" | "other";

/** One server: its connections, made when they are needed. */
export class Server {
  readonly #lanes: Readonly<Record<Purpose, Lane>>;
  readonly #replicated: Readonly<Record<"acquire" | "renew", Replicated>> | undefined;

  constructor(
    dialer: Dialer,
    clock: Clock,
    address: Address | null,
    rule: ReplicaRule | undefined,
  ) {
    const lane = (): Lane => new Lane(dialer, clock, address, this.#learn);
    const other = lane();
    if (rule === undefined) this.#lanes = { acquire: other, renew: other, other };
    else {
      const [acquire, renew] = [lane(), lane()];
      this.#lanes = { acquire, renew, other };
      this.#replicated = {
        acquire: new Replicated(acquire, rule),
        renew: new Replicated(renew, rule),
      };
    }
  }

  async connection(dueAt: number): Promise<Connection> {
    return await this.#lanes.other.connection(dueAt);
  }

  get idle(): boolean {
    return this.#lanes.other.open?.idle === true;
  }

  /** One call, not waited for by replicas. */
  ask(call: Call, asker: Asker, alone?: boolean): void {
    const { open } = this.#lanes.other;
    if (open !== undefined) open.ask(call, asker, alone);
    else
      this.connection(asker.dueAt).then(
        (connection) => {
          connection.ask(call, asker, alone);
        },
        (error: unknown) => {
          asker.failed(error);
        },
      );
  }

  /** Several calls in one write; the outcome of each. Never rejects. */
  async runAll(
    calls: readonly Call[],
    purpose: Purpose,
    dueAt: number,
  ): Promise<readonly Outcome[]> {
    const replicated = purpose === "other" ? undefined : this.#replicated?.[purpose];
    try {
      return replicated === undefined
        ? await (await this.#lanes[purpose].connection(dueAt)).runAll(calls, dueAt)
        : await replicated.runAll(calls, dueAt);
    } catch (error) {
      return calls.map(() => ({ ok: false, error }));
    }
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#lanes).map(async (lane) => lane.close()));
  }

  /** A primary that became a replica stays connected: the next connection finds its successor. */
  readonly #learn = (error: unknown): void => {
    const code = codeOf(error);
    if (code !== "READONLY" && code !== "MASTERDOWN") return;
    for (const lane of Object.values(this.#lanes)) lane.retire();
  };
}

/** All servers of one backend, and which of them has a key. */
export interface Servers {
  /** One connection leads to all names, and no reply is waited for on it. */
  readonly idle: boolean;
  /** One call. `alone`: it need not wait for other commands of this turn of the event loop. */
  ask(call: Call, asker: Asker, alone?: boolean): void;
  runAll(calls: readonly Call[], purpose: Purpose, dueAt: number): Promise<readonly Outcome[]>;
  /** Those that have keys: one, or all primaries of a Cluster. */
  primaries(dueAt: number): Promise<readonly Server[]>;
  /** A server for messages: any of them passes on what a script publishes. */
  listener(): Address | null;
  close(): Promise<void>;
}

/** One call, waited for. Rejects with an error reply or a LinkError. */
export async function run(servers: Servers, call: Call, dueAt: number): Promise<unknown> {
  return await new Promise((answered, failed) => {
    servers.ask(call, { dueAt, answered, failed });
  });
}

/** One server, or the primary that Sentinels tell of. */
export class OneServer implements Servers {
  readonly #server: Server;

  constructor(dialer: Dialer, clock: Clock, rule: ReplicaRule | undefined) {
    this.#server = new Server(dialer, clock, null, rule);
  }

  get idle(): boolean {
    return this.#server.idle;
  }

  ask(call: Call, asker: Asker, alone?: boolean): void {
    this.#server.ask(call, asker, alone);
  }

  async runAll(
    calls: readonly Call[],
    purpose: Purpose,
    dueAt: number,
  ): Promise<readonly Outcome[]> {
    return await this.#server.runAll(calls, purpose, dueAt);
  }

  async primaries(): Promise<readonly Server[]> {
    return [this.#server];
  }

  listener(): null {
    return null;
  }

  async close(): Promise<void> {
    await this.#server.close();
  }
}

/** The servers of a Cluster and who has which slot. */
export class ClusterServers implements Servers {
  readonly idle = false;
  readonly #dialer: Dialer;
  readonly #clock: Clock;
  readonly #rule: ReplicaRule | undefined;
  readonly #servers = new Map<string, Server>();
  readonly #addresses = new Map<string, Address>();
  readonly #slots: (string | undefined)[] = new Array<string | undefined>(SLOTS).fill(undefined);
  #refreshing: Promise<void> | undefined;
  #closed = false;

  constructor(
    dialer: Dialer,
    clock: Clock,
    rule: ReplicaRule | undefined,
    seeds: readonly Address[],
  ) {
    this.#dialer = dialer;
    this.#clock = clock;
    this.#rule = rule;
    for (const seed of seeds) this.#add(seed);
  }

  ask(call: Call, asker: Asker): void {
    void this.#follow(call, "other", asker.dueAt).then((outcome) => {
      if (outcome.ok) asker.answered(outcome.value);
      else asker.failed(outcome.error);
    });
  }

  async runAll(
    calls: readonly Call[],
    purpose: Purpose,
    dueAt: number,
  ): Promise<readonly Outcome[]> {
    const groups = new Map<Server, number[]>();
    const outcomes = new Array<Outcome>(calls.length);
    for (const [i, call] of calls.entries()) {
      const server = await this.#serverOf(call, dueAt).catch(() => undefined);
      const group = server === undefined ? undefined : groups.get(server);
      if (group !== undefined) group.push(i);
      else if (server !== undefined) groups.set(server, [i]);
      else
        outcomes[i] = {
          ok: false,
          error: new LinkError("no server of the Cluster is known for this name", { sent: false }),
        };
    }
    const work = [...groups].map(async ([server, members]) => {
      const group = members.flatMap((i) => calls[i] ?? []);
      const replies = await server.runAll(group, purpose, dueAt);
      await Promise.all(
        members.map(async (i, k) => {
          const [call, reply] = [calls[i], replies[k]];
          if (call === undefined || reply === undefined) return;
          const redirected = this.#learn(call, reply);
          outcomes[i] = redirected ? await this.#follow(call, purpose, dueAt, reply) : reply;
        }),
      );
    });
    await Promise.all(work);
    return outcomes;
  }

  async primaries(dueAt: number): Promise<readonly Server[]> {
    await this.#refresh(dueAt);
    const keys = new Set(this.#slots);
    return [...keys].flatMap((key) => (key === undefined ? [] : (this.#servers.get(key) ?? [])));
  }

  listener(): Address | null {
    const [first] = this.#slots.filter((key) => key !== undefined);
    const known = first === undefined ? undefined : this.#addresses.get(first);
    return known ?? [...this.#addresses.values()][0] ?? null;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#servers.values()].map(async (server) => server.close()));
  }

  /** One call, wherever the Cluster sends it. A redirection means that it was not applied. */
  async #follow(call: Call, purpose: Purpose, dueAt: number, first?: Outcome): Promise<Outcome> {
    let outcome = first;
    for (let hops = 0; hops <= REDIRECTS; hops += 1) {
      let [server, asked]: [Server | undefined, Call] = [undefined, call];
      if (outcome !== undefined && !outcome.ok && codeOf(outcome.error) === "ASK") {
        server = this.#serverIn(outcome.error);
        asked = { ...call, asking: true };
      }
      try {
        server ??= await this.#serverOf(call, dueAt);
      } catch (error) {
        return { ok: false, error };
      }
      [outcome] = await server.runAll([asked], purpose, dueAt);
      if (outcome === undefined)
        return { ok: false, error: new LinkError("no reply", { sent: true }) };
      if (!this.#learn(call, outcome)) return outcome;
    }
    return outcome ?? { ok: false, error: new LinkError("no reply", { sent: false }) };
  }

  /** Takes in what a reply tells of the Cluster. Returns whether the call was sent elsewhere. */
  #learn(call: Call, outcome: Outcome): boolean {
    if (outcome.ok) return false;
    const code = codeOf(outcome.error);
    if (code === "MOVED") {
      const [, , place = ""] = (outcome.error as Error).message.split(" ");
      this.#slots[slotOf(call.keys[0] ?? "")] = this.#add(this.#read(place));
      this.#refreshSoon();
      return true;
    }
    if (code === "ASK") return true;
    const gone = outcome.error instanceof LinkError;
    if (gone || code === "READONLY" || code === "CLUSTERDOWN") this.#refreshSoon();
    return false;
  }

  #serverIn(error: unknown): Server | undefined {
    const [, , place = ""] = (error as Error).message.split(" ");
    return this.#servers.get(this.#add(this.#read(place)));
  }

  #read(place: string): Address {
    const [anybody] = this.#addresses.values();
    return this.#dialer.map(parseAddress(place, anybody?.host ?? "127.0.0.1"));
  }

  async #serverOf(call: Call, dueAt: number): Promise<Server> {
    const slot = slotOf(call.keys[0] ?? "");
    if (this.#slots[slot] === undefined) await this.#refresh(dueAt);
    const server = this.#servers.get(this.#slots[slot] ?? "");
    if (server === undefined)
      throw new LinkError(`no server of the Cluster has slot ${slot}`, { sent: false });
    return server;
  }

  #add(address: Address): string {
    const key = `${address.host}:${address.port}`;
    if (!this.#servers.has(key) && !this.#closed) {
      this.#servers.set(key, new Server(this.#dialer, this.#clock, address, this.#rule));
      this.#addresses.set(key, address);
    }
    return key;
  }

  /** In the background: this attempt has failed, the next one is to know better. */
  #refreshSoon(): void {
    if (this.#closed || this.#refreshing !== undefined) return;
    this.#refresh(this.#clock.mono() + 2000).catch(() => undefined);
  }

  async #refresh(dueAt: number): Promise<void> {
    this.#refreshing ??= this.#ask(dueAt).finally(() => {
      this.#refreshing = undefined;
    });
    await this.#refreshing;
  }

  async #ask(dueAt: number): Promise<void> {
    let cause: unknown;
    // A failed server must not use up the time of all others.
    const each = Math.max(100, (dueAt - this.#clock.mono()) / Math.max(1, this.#servers.size));
    for (const [key, server] of this.#servers) {
      try {
        const until = Math.min(dueAt, this.#clock.mono() + each);
        const connection = await server.connection(until);
        this.#take(await connection.send(["CLUSTER", "SLOTS"], until), key);
        return;
      } catch (error) {
        cause = error;
      }
    }
    throw new LinkError("no server of the Cluster could be reached", { sent: false, cause });
  }

  /** Reads `CLUSTER SLOTS`: [[from, to, [host, port, …], …], …]. */
  #take(reply: unknown, from: string): void {
    const self = this.#addresses.get(from)?.host ?? "127.0.0.1";
    const ranges = reply as readonly (readonly [number, number, readonly [string, number]])[];
    if (ranges.length === 0) return;
    this.#slots.fill(undefined);
    for (const [start, end, [host, port]] of ranges) {
      const address = this.#dialer.map({ host: host === "" ? self : host, port });
      this.#slots.fill(this.#add(address), start, end + 1);
    }
  }
}
