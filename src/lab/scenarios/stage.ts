import type { Adoption } from "../../core/guard.ts";
import type { Held, LockClient, LockTerms } from "../clients/client.ts";
import { CoreClient } from "../clients/core-client.ts";
import { NaiveClient } from "../clients/naive-client.ts";
import { PlainClient } from "../clients/plain-client.ts";
import { RedlockClient } from "../clients/redlock-client.ts";
import { callOf, simDialer } from "../servers/postgres-connection.ts";
import { PostgresData } from "../servers/postgres-data.ts";
import { PostgresPlace } from "../servers/postgres-place.ts";
import { RedisServer } from "../servers/redis.ts";
import { RedisPlace } from "../servers/redis-place.ts";
import { RedlockPlace } from "../servers/redlock-server.ts";
import { type Actor, ResourceServer } from "../servers/resource.ts";
import { ServiceServer } from "../servers/service.ts";
import { TableServer } from "../servers/table.ts";
import type { Survival } from "../sim/disk.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import { Ledger, type Update } from "../workloads/ledger.ts";
import { actorOf } from "../workloads/section.ts";
import type { Hold, Order, Play, PlayMessage } from "./play.ts";
import type { Arm, ArmName } from "./scenario.ts";

/** The simulated world as a scenario acts on it: the same names in every arm, whatever lock is behind them. */
export class Stage implements Play {
  readonly world: World;
  readonly armName: ArmName;
  readonly resource: ResourceServer;
  readonly service: ServiceServer;
  /** Ringfence's own lock server: the memory driver. */
  readonly table: TableServer | null = null;
  /** Ringfence's own Redis. */
  readonly store: RedisPlace | null = null;
  /** The lock's Redis servers; the first is the primary. */
  readonly redis: RedisServer[] = [];
  /** Ringfence's own Redlock servers. */
  readonly quorum: RedlockPlace | null = null;
  readonly postgres: PostgresPlace | null = null;
  #ledger: Ledger<SimProcess> | undefined;
  /** How many things had to come to an end. */
  demands = 0;
  readonly #arm: Arm;
  readonly #clients = new Map<string, LockClient>();
  readonly #open = new Set<string>();
  /** The last grant of each lock that was asked for by `acquire`. */
  readonly #last = new Map<string, string>();

  constructor(world: World, armName: ArmName, arm: Arm) {
    this.world = world;
    this.armName = armName;
    this.#arm = arm;
    this.resource = new ResourceServer(world, "X", arm.guard);
    this.resource.timeoutMs = 60_000;
    this.service = new ServiceServer(world, "Y");
    const { lock } = arm;
    if (lock.kind === "core") {
      const { redis, tamper } = lock;
      const planted = tamper === undefined ? {} : { tamper };
      if (redis === undefined) this.table = new TableServer(world, "S", planted);
      else this.store = new RedisPlace(world, { ...redis, ...planted, warm: true });
    } else if (lock.kind === "postgres")
      this.postgres = new PostgresPlace(
        world,
        "S",
        ...[lock.server ?? {}, ...(lock.standby === true ? [{}] : [])],
      );
    else if (lock.kind === "quorum")
      this.quorum = new RedlockPlace(world, lock.nodes ?? 5, lock.quorum);
    else {
      const count = lock.kind === "redlock" ? (lock.nodes ?? 5) : 1 + (lock.replicas ?? 0);
      const appendOnly = lock.kind === "redis" ? lock.appendOnly : undefined;
      for (let i = 0; i < count; i += 1)
        this.redis.push(
          new RedisServer(world, i === 0 && count === 1 ? "S" : `S${i + 1}`, appendOnly),
        );
      if (lock.kind === "redis")
        for (const replica of this.redis.slice(1)) this.redis[0]?.replicateTo(replica);
    }
  }

  /** Whether the lock is Ringfence's. */
  get ours(): boolean {
    const { lock } = this.#arm;
    return ["core", "quorum"].includes(lock.kind) || (lock.kind === "postgres" && !lock.habits);
  }

  /** Names of the lock's servers. */
  get servers(): readonly string[] {
    if (this.table !== null) return [this.table.name];
    if (this.postgres !== null) return this.postgres.servers.map(({ name }) => name);
    const { redis, store, quorum } = this;
    return [...redis, ...(store?.servers ?? []), ...(quorum?.servers ?? [])].map(
      ({ name }) => name,
    );
  }

  get server(): string {
    return this.servers[0] ?? "S";
  }

  get now(): number {
    return this.world.now;
  }

  process(name: string): SimProcess {
    this.client(name);
    return this.world.process(name);
  }

  /** The lock client of this name; starts its process at the first use, and again after `restart`. */
  client(name: string): LockClient {
    let client = this.#clients.get(name);
    if (client === undefined) {
      client = this.#make(this.world.start(name));
      this.#clients.set(name, client);
    }
    return client;
  }

  core(name: string): CoreClient | null {
    const client = this.client(name);
    return client instanceof CoreClient ? client : null;
  }

  #make(process: SimProcess): LockClient {
    const { lock } = this.#arm;
    const { world } = this;
    if (lock.kind === "core") {
      const place = this.table ?? this.store;
      if (place === null) throw new Error("no lock server");
      return new CoreClient(world, process, place.driverFor(process), { handOff: "off" });
    }
    if (lock.kind === "postgres") {
      const { postgres } = this;
      if (postgres === null) throw new Error("no PostgreSQL");
      if (lock.habits === undefined)
        return new CoreClient(world, process, postgres.driverFor(process), { handOff: "off" });
      const dialer = simDialer(world, process, () => postgres.primary);
      return new PlainClient(world, process, dialer, lock.habits);
    }
    if (lock.kind === "quorum") {
      if (this.quorum === null) throw new Error("no lock servers");
      return new CoreClient(world, process, this.quorum.driverFor(process), { handOff: "off" });
    }
    if (lock.kind === "redlock") return new RedlockClient(world, process, this.redis, lock.habits);
    const primary = (): RedisServer => {
      const [first] = this.redis;
      if (first === undefined) throw new Error("no Redis");
      return first;
    };
    return new NaiveClient(world, process, primary, lock.habits);
  }

  /** @throws Error when it came to nothing: a scenario that needs the lock cannot go on */
  async acquire(name: string, terms: LockTerms, lock = "L"): Promise<Held> {
    const held = await this.client(name).acquire(lock, terms);
    if (held === null) throw new Error(`${name} did not get ${lock}`);
    this.#last.set(lock, held.grant);
    return held;
  }

  async lined(count: number, lock = "L"): Promise<void> {
    const { history } = this.world.probe;
    if (history === null) throw new Error("Nobody writes down who waits.");
    const lines = (): number =>
      [...history].filter((event) => event.f === "enqueue" && event.lock === lock).length;
    while (lines() < count) await this.after(1);
  }

  as(name: string, held: Held): Actor {
    return actorOf(this.process(name), held);
  }

  /** Claims where the guard is of that kind, then reads. */
  async open(name: string, held: Held, res = "R"): Promise<number> {
    const who = this.as(name, held);
    await this.resource.claim(who, res);
    return await this.resource.read(who, res);
  }

  async claim(name: string, held: Held, res = "R"): Promise<boolean> {
    return await this.resource.claim(this.as(name, held), res);
  }

  async read(name: string, held: Held, res = "R"): Promise<number> {
    return await this.resource.read(this.as(name, held), res);
  }

  async write(name: string, held: Held, from: number, res = "R"): Promise<number | null> {
    return await this.resource.write(this.as(name, held), res, from);
  }

  async byHand(name: string, work: (from: number) => Promise<void>, res = "R"): Promise<void> {
    const client = this.process(name);
    const grant = `by hand of ${name}`;
    const who = { client, lock: "L", grant, token: undefined, scope: "" };
    const from = await this.resource.read(who, res);
    await work(from);
    await this.resource.write(who, res, from, "by hand");
  }

  adopt(adoption: Adoption, res = "R"): void {
    this.resource.adopt(res, adoption);
  }

  async update(name: string, held: Held, how: Update): Promise<boolean> {
    this.#ledger ??= new Ledger(this.world, new PostgresData(this.world, !this.ours));
    return await this.#ledger.update(this.process(name), held, how);
  }

  async order(name: string, held: Held, business: string, { key, body }: Order): Promise<void> {
    await this.service.order(this.as(name, held), business, key, body);
  }

  async revoke(name: string, lock = "L"): Promise<void> {
    const core = this.core(name);
    if (core === null) await this.redis[0]?.call(this.process(name), ["DEL", lock]);
    else await core.manager.revoke(lock, { reason: "by hand" });
    const grant = this.#last.get(lock);
    if (grant !== undefined)
      this.world.probe.ev(this.process(name), "event", "revoke", { lock, grant });
  }

  async acquireAll(
    name: string,
    locks: readonly string[],
    terms: LockTerms,
  ): Promise<() => Promise<void>> {
    const core = this.core(name);
    if (core !== null) {
      const set = await core.manager.acquireAll(locks, { ttl: terms.ttlMs });
      return async () => {
        await set.release();
      };
    }
    const held: Held[] = [];
    for (const lock of locks) {
      held.push(await this.acquire(name, terms, lock));
      await this.sleep(name, 10);
    }
    return async () => {
      for (const each of held) await each.release();
    };
  }

  /** A whole section: acquire, open, work, write, release. */
  async section(name: string, terms: LockTerms, workMs = 10): Promise<void> {
    const held = await this.acquire(name, terms);
    const from = await this.open(name, held);
    await this.sleep(name, workMs);
    await this.write(name, held, from);
    await held.release();
  }

  /** By the process's own clock. */
  async sleep(name: string, ms: number): Promise<void> {
    await this.process(name).sleep(ms);
  }

  /** True time; for the scenario's own steps, not for a client's. */
  async after(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.world.scheduler.after(ms, resolve);
    });
  }

  /** Stops a process here, in the middle of what it does; it goes on `ms` later. */
  async stall(name: string, ms: number): Promise<void> {
    this.pauseFor(name, ms);
    await this.sleep(name, 0);
  }

  pauseFor(name: string, ms: number): void {
    this.world.pause(name);
    this.world.scheduler.after(ms, () => {
      this.world.resume(name);
    });
  }

  hold(from: string, to: string, match: string | ((message: PlayMessage) => boolean)): Hold {
    const link = this.world.net.link(from, to);
    let catches: () => void = () => undefined;
    const caught = new Promise<void>((resolve) => (catches = resolve));
    const kept = new Set<() => void>();
    link.hold = (message) => {
      // A copy that a connection sends again goes the way of the first.
      if (kept.has(message.deliver)) return true;
      const seen = this.#seen(message);
      const held = typeof match === "string" ? seen.label === match : match(seen);
      if (!held) return false;
      kept.add(message.deliver);
      catches();
      return true;
    };
    this.world.probe.world("fault.net", { err: `${from} → ${to}: held back` });
    const release = (): void => {
      link.release();
    };
    return Object.assign(release, { caught });
  }

  drop(from: string, to: string, match: (message: PlayMessage) => boolean, count = 1): void {
    const link = this.world.net.link(from, to);
    let left = count;
    this.world.probe.world("fault.net", { err: `${from} → ${to}: ${count} lost` });
    const lost = new Set<() => void>();
    link.dropIf = (message) => {
      if (lost.has(message.deliver)) return true;
      if (left === 0 || !match(this.#seen(message))) return false;
      left -= 1;
      lost.add(message.deliver);
      return true;
    };
  }

  /** A message by the driver's call that it is of. */
  #seen(message: PlayMessage): PlayMessage {
    return this.postgres === null ? message : { label: callOf(message.label) };
  }

  kill(name: string): void {
    this.world.kill(name);
  }

  cut(a: string, b: string, oneWay = false): void {
    this.world.cut(a, b, "lose", oneWay);
  }

  step(name: string, ms: number): void {
    this.world.step(name, ms);
  }

  async restartServer(name: string, survival: Survival): Promise<void> {
    this.redis.find((server) => server.name === name)?.restart(survival);
    this.store?.servers.find((server) => server.name === name)?.restart(survival);
    this.postgres?.restart();
    const memory = survival === "nothing" ? "lost" : "kept";
    if (this.table?.name === name) this.table.restart(memory);
    this.quorum?.servers.find((server) => server.name === name)?.restart(memory);
    return Promise.resolve();
  }

  async failOver(): Promise<void> {
    if (this.table !== null) {
      this.table.restart("lost");
      return Promise.resolve();
    }
    if (this.store !== null) {
      if (this.store.servers.length > 1) this.store.failOver();
      else this.store.primary.restart("nothing");
      return Promise.resolve();
    }
    if (this.postgres !== null) {
      this.postgres.failOver();
      return Promise.resolve();
    }
    const primary = this.redis.shift();
    if (primary !== undefined) this.world.kill(primary.name);
    this.world.probe.world("fault.net", { err: `${this.server} promoted` });
    return Promise.resolve();
  }

  /** Our driver refuses a server that evicts: where it is asked for, nothing goes. */
  async fillMemory(): Promise<void> {
    this.world.probe.world("fault.net", { err: `${this.server} is out of memory` });
    this.redis[0]?.evict();
    return Promise.resolve();
  }

  /** Something that has to come to an end: what does not is a lack of progress. */
  async must(what: string, work: Promise<unknown>): Promise<void> {
    this.#open.add(what);
    this.demands += 1;
    await work;
    this.#open.delete(what);
  }

  /** What has not come to its end. */
  get unfinished(): readonly string[] {
    return [...this.#open];
  }
}
