import { Disk, type Survival } from "../sim/disk.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import {
  apply,
  execute,
  purge,
  type RedisCommand,
  type RedisEffect,
  type RedisReply,
  type RedisState,
} from "./redis-state.ts";

/** What a Redis keeps on disk: nothing, what it fsyncs every second, or each write before its answer. */
export type AppendOnly = "no" | "everysec" | "always";

interface Replica {
  readonly server: RedisServer;
  /** What it is known to have applied. */
  acked: number;
}

/**
 * One Redis: keys end by its wall clock, replication is asynchronous and in order, WAIT counts acknowledgements, a
 * restart brings back what its append-only file kept. A key whose name does not begin with `counter:` counts as a lock
 * whose value names the grant.
 */
export class RedisServer {
  readonly name: string;
  process: SimProcess;
  readonly #world: World;
  readonly #appendOnly: AppendOnly;
  readonly #disk = new Disk<RedisEffect>();
  #state: RedisState = { keys: new Map() };
  readonly #replicas: Replica[] = [];
  readonly #waiting = new Set<() => void>();
  /** Effects that it has applied since it started. */
  #offset = 0;
  /** Every grant that it ever gave. */
  readonly #granted = new Set<string>();
  readonly #early = new Map<number, readonly RedisEffect[]>();
  /** Processes that hear of every DEL of a key. */
  readonly #subscribers = new Map<
    string,
    { readonly client: SimProcess; readonly onMessage: () => void; readonly once: boolean }[]
  >();

  constructor(world: World, name: string, appendOnly: AppendOnly = "no") {
    this.#world = world;
    this.name = name;
    this.#appendOnly = appendOnly;
    this.process = world.start(name);
    if (appendOnly === "everysec") this.#syncLater();
  }

  /** Its copy, from now on. */
  replicateTo(server: RedisServer): void {
    this.#replicas.push({ server, acked: 0 });
  }

  /** One command over the links. Waits for its answer for ever. */
  async call(client: SimProcess, command: RedisCommand): Promise<RedisReply> {
    const label = command[0] === "EVAL" ? command[1] : command[0];
    return await this.#world.net.call(
      client,
      () => this.process,
      label,
      () => this.#execute(command),
    );
  }

  /** Blocks until so many replicas have everything, or `timeoutMs` passed; returns how many have. */
  async wait(client: SimProcess, replicas: number, timeoutMs: number): Promise<number> {
    return await this.#world.net.call(
      client,
      () => this.process,
      "WAIT",
      async () => {
        const wanted = this.#offset;
        const count = (): number => this.#replicas.filter(({ acked }) => acked >= wanted).length;
        if (count() >= replicas) return count();
        return await new Promise<number>((resolve) => {
          const done = (): void => {
            this.#waiting.delete(look);
            timer.cancel();
            resolve(count());
          };
          const look = (): void => {
            if (count() >= replicas) done();
          };
          const timer = this.process.clock.timer(timeoutMs, done);
          this.#waiting.add(look);
        });
      },
    );
  }

  /**
   * Tells `client` whenever `key` is deleted. The message may be lost, as with any pub/sub. `once`: of the next deletion
   * that nobody who asked before is told of, whether that one still lives or not.
   */
  async subscribe(
    client: SimProcess,
    key: string,
    onMessage: () => void,
    once = false,
  ): Promise<void> {
    const list = this.#subscribers.get(key) ?? [];
    list.push({ client, onMessage, once });
    this.#subscribers.set(key, list);
    return Promise.resolve();
  }

  #publish(key: string): void {
    const list = this.#subscribers.get(key) ?? [];
    const first = list.findIndex(({ once }) => once);
    const told = list.filter(({ once }, i) => !once || i === first);
    if (first >= 0) list.splice(first, 1);
    for (const { client, onMessage } of told)
      this.#world.net.send({ from: this.process, to: client, label: "wake", deliver: onMessage });
  }

  /** Removes the least recently used key that has a ttl, as volatile-lru does when memory is short. */
  evict(): void {
    const victims = [...this.#state.keys].filter(([, entry]) => entry.expiresAt !== null);
    victims.sort(([, a], [, b]) => a.usedAt - b.usedAt);
    const [victim] = victims;
    if (victim === undefined) return;
    this.#over("srv.expire", victim[0], victim[1].value);
    this.#state.keys.delete(victim[0]);
  }

  /** Dies, and starts again with what is left. */
  restart(survival: Survival): void {
    this.#world.kill(this.name);
    this.process = this.#world.start(this.name);
    this.#state = { keys: new Map() };
    this.#waiting.clear();
    const left = this.#appendOnly === "no" ? [] : this.#disk.recover(survival);
    for (const effect of left) apply(this.#state, effect, this.#now());
  }

  #now(): number {
    return Math.floor(this.process.machine.wall());
  }

  #execute(command: RedisCommand): RedisReply {
    const now = this.#now();
    this.#purge();
    const before = new Map([...this.#state.keys].map(([key, { value }]) => [key, value]));
    const { reply, effects } = execute(this.#state, now, command);
    for (const effect of effects) this.#tell(effect, before);
    this.#write(effects);
    return reply;
  }

  #write(effects: readonly RedisEffect[]): void {
    if (effects.length === 0) return;
    if (this.#appendOnly !== "no") for (const effect of effects) this.#disk.append(effect);
    if (this.#appendOnly === "always") this.#disk.sync();
    this.#offset += 1;
    const offset = this.#offset;
    for (const replica of this.#replicas) {
      const { server } = replica;
      const deliver = (): void => {
        server.#receive(offset, effects);
        const ack = (): void => {
          replica.acked = Math.max(replica.acked, server.#offset);
          for (const look of this.#waiting) look();
        };
        this.#world.net.send({
          from: server.process,
          to: this.process,
          label: "ack",
          deliver: ack,
        });
      };
      this.#world.net.send({ from: this.process, to: server.process, label: "replicate", deliver });
    }
  }

  /** Replication is a stream: what comes early waits. */
  #receive(offset: number, effects: readonly RedisEffect[]): void {
    this.#early.set(offset, effects);
    for (let next = this.#early.get(this.#offset + 1); next !== undefined; ) {
      this.#offset += 1;
      this.#early.delete(this.#offset);
      for (const effect of next) apply(this.#state, effect, this.#now());
      next = this.#early.get(this.#offset + 1);
    }
  }

  #tell(effect: RedisEffect, before: ReadonlyMap<string, string>): void {
    const { key } = effect;
    if (key.startsWith("counter:")) return;
    const was = before.get(key);
    if (effect.kind === "del") {
      if (was !== undefined) this.#over("srv.release", key, was);
      this.#publish(key);
      return;
    }
    const grant = grantOf(effect.value);
    const { expiresAt } = effect;
    const ttlMs = expiresAt === null ? undefined : expiresAt - this.#now();
    const facts = { lock: key, grant, ...(ttlMs === undefined ? {} : { ttlMs }) };
    // A lock that is made again for a grant that had it before is a renewal, and a wrong one: the checkers say so.
    const again = (was !== undefined && grantOf(was) === grant) || this.#granted.has(grant);
    this.#granted.add(grant);
    this.#world.probe.ev(this.process, "event", again ? "srv.renew" : "srv.grant", facts);
    if (ttlMs !== undefined)
      this.#world.scheduler.after(
        ttlMs + 1,
        () => {
          this.#purge();
        },
        false,
      );
  }

  #purge(): void {
    if (!this.process.alive) return;
    for (const { key, value } of purge(this.#state, this.#now()))
      if (!key.startsWith("counter:")) this.#over("srv.expire", key, value);
  }

  #over(f: "srv.expire" | "srv.release", lock: string, value: string): void {
    this.#world.probe.ev(this.process, "event", f, { lock, grant: grantOf(value) });
  }

  #syncLater(): void {
    this.#world.scheduler.after(
      1000,
      () => {
        this.#disk.sync();
        this.#syncLater();
      },
      false,
    );
  }
}

/** The grant that a lock's value names: all of it, or what stands before the counter. */
function grantOf(value: string): string {
  return value.split(":")[0] ?? value;
}
