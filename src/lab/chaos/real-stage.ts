import type { Adoption } from "../../core/guard.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import type { LockTerms } from "../clients/client.ts";
import type { Hold, Order, Play, PlayClient, PlayHeld, PlayMessage } from "../scenarios/play.ts";
import type { Arm, ArmName, Scenario } from "../scenarios/scenario.ts";
import type { Update } from "../workloads/ledger.ts";
import type { ClientChild } from "./client-process.ts";
import { eventsIn, type Journal } from "./journal.ts";
import type { HeldFacts, Task } from "./messages.ts";
import { keyOn, Line, Observer, observeWakes, recordOn } from "./observer.ts";
import type { How } from "./parts.ts";
import { type Props, setUp } from "./props.ts";
import type { Gate, Proxy } from "./proxy.ts";
import { call, info } from "./redis-client.ts";

/** Which store Ringfence's arm uses, where a scenario is not about one. */
export type RealStore = "redis" | "sqlite" | "postgres";

/** The lock of most scenarios. */
const LOCK = "L";
/** What fills a server up. */
const JUNK_BYTES = 20_000;
const JUNK_KEYS = 400;
/** How often is looked who stands in line. */
const LINE_EVERY_MS = 10;

/** A lease in a client process. */
class RemoteHeld implements PlayHeld {
  readonly id: number;
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope: string;
  readonly #do: (task: Task) => Promise<unknown>;

  constructor(act: (task: Task) => Promise<unknown>, { id, lock, grant, token, scope }: HeldFacts) {
    this.#do = act;
    this.id = id;
    this.lock = lock;
    this.grant = grant;
    this.token = token === null ? undefined : BigInt(token);
    this.scope = scope;
  }

  async believes(): Promise<boolean> {
    return (await this.#do({ do: "believes", held: this.id })) === true;
  }

  async renew(ms: number): Promise<void> {
    await this.#do({ do: "renew", held: this.id, ms });
  }

  async release(): Promise<void> {
    await this.#do({ do: "release", held: this.id });
  }

  async handOver(): Promise<string> {
    return String(await this.#do({ do: "handOver", held: this.id }));
  }
}

/** Real servers and processes as a scenario acts on them; the same steps as in the simulated world. */
export class RealStage implements Play {
  readonly armName: ArmName;
  readonly ours: boolean;
  demands = 0;
  /** Called whenever something has come to its end. */
  onSettled: () => void = () => undefined;
  /** Called when something has failed that had to come to its end: the scenario is not played as it should be. */
  onFailed: (error: unknown) => void = () => undefined;
  readonly #props: Props;
  readonly #journal: Journal;
  readonly #open = new Set<string>();
  readonly #last = new Map<string, string>();
  /** Where a message was to be lost, and none was. */
  readonly #unlost = new Set<string>();
  readonly #closers: (() => Promise<void>)[] = [];
  readonly #startedAt: number;
  #observer: Observer | undefined;
  #line: Line | undefined;
  #closed = false;

  private constructor(armName: ArmName, props: Props) {
    this.armName = armName;
    this.#props = props;
    this.#journal = props.journal;
    this.ours = props.lock.url !== null;
    this.#startedAt = systemClock.mono();
    for (const child of props.clients.values())
      child.onStop = (ms) => {
        this.pauseFor(child.names[0] ?? "", ms);
      };
  }

  /** Starts everything that an arm needs. @throws BackendConfigError where there is no such server */
  static async open(scenario: Scenario, armName: ArmName, how: How): Promise<RealStage> {
    const stage = new RealStage(armName, await setUp(scenario, armName, how));
    const { property, real } = scenario;
    if (property === "P6" || property === "P14") stage.#observe(scenario.arms[armName]);
    if (real?.wakes === true) await stage.#observeWakes();
    return stage;
  }

  get servers(): readonly string[] {
    const { targets } = this.#props.lock;
    return targets.length === 0 ? ["S"] : targets.map(({ name }) => name);
  }

  get server(): string {
    return this.servers[0] ?? "S";
  }

  get now(): number {
    return systemClock.mono() - this.#startedAt;
  }

  /** What has not come to its end. */
  get unfinished(): readonly string[] {
    return [...this.#open];
  }

  /** Why this run put less to the test than it should have; `null` when it did not. */
  get vacuous(): string | null {
    const [what] = this.#unlost;
    return what === undefined ? null : `no message was lost, ${what}`;
  }

  /** What of the scenario is played in another way here than it could be. */
  get notes(): readonly string[] {
    return this.#props.lock.postgres?.notes ?? [];
  }

  /** Files with the events of this run. */
  get files(): readonly string[] {
    return this.#props.files;
  }

  client(name: string): PlayClient {
    const child = this.#child(name);
    const held = (facts: unknown): PlayHeld | null => {
      if (facts === null) return null;
      const lease = new RemoteHeld(async (task) => child.do(name, task), facts as HeldFacts);
      this.#last.set(lease.lock, lease.grant);
      return lease;
    };
    return {
      acquire: async (lock, terms) => held(await child.do(name, { do: "acquire", lock, terms })),
      resume: async (text, lock, terms) =>
        held(await child.do(name, { do: "resume", text, lock, terms })),
    };
  }

  async acquire(name: string, terms: LockTerms, lock: string = LOCK): Promise<PlayHeld> {
    const held = await this.client(name).acquire(lock, terms);
    if (held === null) throw new Error(`${name} did not get ${lock}`);
    return held;
  }

  async lined(count: number, lock: string = LOCK): Promise<void> {
    const line = this.ours ? this.#lineAt(lock) : null;
    const standing = async (): Promise<number> => {
      if (line !== null) return await line.look();
      const events = this.#props.files.flatMap((file) => eventsIn(file, "enqueue"));
      return events.filter((event) => event.lock === lock).length;
    };
    while ((await standing()) < count) await this.after(LINE_EVERY_MS);
  }

  async acquireAll(
    name: string,
    locks: readonly string[],
    terms: LockTerms,
  ): Promise<() => Promise<void>> {
    await this.#child(name).do(name, { do: "acquireAll", locks, terms });
    return async () => {
      await this.#child(name).do(name, { do: "releaseAll" });
    };
  }

  async section(name: string, terms: LockTerms, workMs = 10): Promise<void> {
    const held = await this.acquire(name, terms);
    const from = await this.open(name, held);
    await this.sleep(name, workMs);
    await this.write(name, held, from);
    await held.release();
  }

  async open(name: string, held: PlayHeld, res = "R"): Promise<number> {
    await this.claim(name, held, res);
    return await this.read(name, held, res);
  }

  async claim(name: string, held: PlayHeld, res = "R"): Promise<boolean> {
    return (await this.#with(name, held, (id) => ({ do: "claim", held: id, res }))) === true;
  }

  async read(name: string, held: PlayHeld, res = "R"): Promise<number> {
    return Number(await this.#with(name, held, (id) => ({ do: "read", held: id, res })));
  }

  async write(name: string, held: PlayHeld, from: number, res = "R"): Promise<number | null> {
    const ver = await this.#with(name, held, (id) => ({ do: "write", held: id, res, from }));
    return typeof ver === "number" ? ver : null;
  }

  async byHand(name: string, work: (from: number) => Promise<void>, res = "R"): Promise<void> {
    const child = this.#child(name);
    const from = Number(await child.do(name, { do: "byHand", res, from: null }));
    await work(from);
    await child.do(name, { do: "byHand", res, from });
  }

  adopt(adoption: Adoption, res = "R"): void {
    this.#props.resource.adopt(res, adoption);
  }

  async update(name: string, held: PlayHeld, how: Update): Promise<boolean> {
    return (await this.#with(name, held, (id) => ({ do: "update", held: id, how }))) === true;
  }

  async order(name: string, held: PlayHeld, business: string, { key, body }: Order): Promise<void> {
    await this.#with(name, held, (id) => ({ do: "order", held: id, business, key, body }));
  }

  async revoke(name: string, lock: string = LOCK): Promise<void> {
    await this.#child(name).do(name, { do: "revoke", lock });
    const grant = this.#last.get(lock);
    if (grant !== undefined) this.#journal.revoked(name, lock, grant);
  }

  async sleep(name: string, ms: number): Promise<void> {
    await this.#child(name).do(name, { do: "sleep", ms });
  }

  async after(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      systemClock.timer(Math.max(0, ms), resolve, true);
    });
  }

  async stall(name: string, ms: number): Promise<void> {
    this.pauseFor(name, ms);
    await this.sleep(name, 0);
  }

  pauseFor(name: string, ms: number): void {
    const child = this.#child(name);
    this.#journal.world("fault.pause", name);
    child.stop();
    void this.after(ms).then(() => {
      if (this.#closed) return;
      this.#journal.world("fault.resume", name);
      child.continue();
    });
  }

  kill(name: string): void {
    this.#journal.world("fault.kill", name);
    void this.#child(name).kill();
  }

  hold(from: string, to: string, match: string | ((message: PlayMessage) => boolean)): Hold {
    const { gate, proxy, direction } = this.#way(from, to);
    let catches: () => void = () => undefined;
    const caught = new Promise<void>((resolve) => (catches = resolve));
    gate.hold = (message) => {
      const held = typeof match === "string" ? message.label === match : match(message);
      if (held) catches();
      return held;
    };
    this.#journal.world("fault.net", "world", `${from} → ${to}: held back`);
    const release = (): void => {
      proxy.release(direction);
    };
    return Object.assign(release, { caught });
  }

  drop(from: string, to: string, match: (message: PlayMessage) => boolean, count = 1): void {
    let left = count;
    const what = `${from} → ${to}`;
    this.#unlost.add(what);
    this.#journal.world("fault.net", "world", `${what}: ${count} lost`);
    this.#way(from, to).gate.dropIf = (message) => {
      if (left === 0 || !match(message)) return false;
      left -= 1;
      this.#unlost.delete(what);
      return true;
    };
  }

  cut(a: string, b: string, oneWay = false): void {
    this.#journal.world("fault.net", "world", `${a} ${oneWay ? "→" : "↔"} ${b} cut`);
    if (this.#props.away.has(a)) {
      this.#props.lock.postgres?.hosts?.unplug();
      return;
    }
    this.#way(a, b).gate.cut = true;
    if (!oneWay) this.#way(b, a).gate.cut = true;
  }

  step(name: string, ms: number): void {
    const clock = this.#props.clocks.get(name);
    if (clock === undefined) throw new Error(`The clock of ${name} cannot be moved.`);
    clock.set(ms);
    this.#journal.world(
      "fault.net",
      "world",
      `wall clock of ${name} ${ms >= 0 ? "+" : ""}${ms} ms`,
    );
  }

  /** What is left: nothing of a Redis without persistence, and of a PostgreSQL what it has written to its log. */
  async restartServer(name: string): Promise<void> {
    const { redis, postgres } = this.#props.lock;
    this.#journal.world("fault.kill", name);
    const server = postgres?.server ?? redis.find((each) => each.name === name);
    await server?.kill();
    await server?.start();
  }

  async failOver(): Promise<void> {
    const { ways, lock } = this.#props;
    const { redis } = lock;
    const [primary, replica] = redis;
    if (primary === undefined) throw new Error("A file does not fail over.");
    this.#journal.world("fault.kill", primary.name);
    await primary.kill();
    if (replica === undefined) {
      await primary.start();
      return;
    }
    redis.shift();
    await call(replica.port, ["REPLICAOF", "NO", "ONE"]);
    for (const [way, proxy] of ways)
      if (way.endsWith(`>${primary.name}`) && !way.startsWith("S")) proxy.retarget(replica.port);
    this.#journal.world("fault.net", "world", `${replica.name} promoted`);
    this.#observer?.turnTo(this.#look(replica.port));
    // As a Sentinel does: the others follow the new primary.
    const others = redis.slice(1);
    await Promise.all(
      others.map(async (other) => other.copy(replica.port, replica, others.length)),
    );
  }

  async fillMemory(): Promise<void> {
    const [server] = this.#props.lock.redis;
    if (server === undefined) throw new Error("A file has no memory limit.");
    this.#journal.world("fault.net", "world", `${server.name} is out of memory`);
    const used = /^used_memory:(\d+)/m.exec(await info(server.port, "memory"));
    await call(server.port, ["CONFIG", "SET", "maxmemory-samples", 10]);
    // Ringfence refuses a server that evicts.
    const policy = this.ours ? "noeviction" : "volatile-lru";
    await call(server.port, ["CONFIG", "SET", "maxmemory-policy", policy]);
    await call(server.port, ["CONFIG", "SET", "maxmemory", Number(used?.[1] ?? 0) + 1_000_000]);
    const value = "x".repeat(JUNK_BYTES);
    for (let n = 0; n < JUNK_KEYS; n += 1) {
      const set = ["SET", `junk:${n}`, value, "PX", 60_000] as const;
      const stored = await call(server.port, set).catch(() => null);
      if (stored === null || (await call(server.port, ["EXISTS", LOCK])) === (this.ours ? -1 : 0))
        return;
    }
  }

  async must(what: string, work: Promise<unknown>): Promise<void> {
    this.#open.add(what);
    this.demands += 1;
    try {
      await work;
    } catch (error) {
      this.onFailed(error);
      // The run is over, and few scenarios wait for this themselves.
      await new Promise<never>(() => undefined);
    }
    this.#open.delete(what);
    this.onSettled();
  }

  /** Ends every process and server that was started. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#observer?.close();
    await this.#line?.close();
    for (const close of this.#closers) await close();
    await this.#props.close();
  }

  #child(name: string): ClientChild {
    const child = this.#props.clients.get(name);
    if (child === undefined)
      throw new RangeError(`No client ${name}: \`real.clients\` names them.`);
    return child;
  }

  async #with(name: string, held: PlayHeld, task: (id: number) => Task): Promise<unknown> {
    if (!(held instanceof RemoteHeld)) throw new TypeError("a lease of another stage");
    return await this.#child(name).do(name, task(held.id));
  }

  /** What carries messages from one to the other. */
  #way(from: string, to: string): { gate: Gate; proxy: Proxy; direction: "up" | "down" } {
    const { ways } = this.#props;
    const there = ways.get(`${from}>${to}`);
    if (there !== undefined) return { gate: there.up, proxy: there, direction: "up" };
    const back = ways.get(`${to}>${from}`);
    if (back === undefined) throw new RangeError(`Nothing goes from ${from} to ${to}.`);
    return { gate: back.down, proxy: back, direction: "down" };
  }

  #observe({ lock }: Arm): void {
    if (lock.kind === "redlock" || lock.kind === "quorum") return;
    const look = this.#look(this.#props.lock.redis[0]?.port ?? 0);
    this.#observer = new Observer(LOCK, this.#journal, look);
  }

  /** Locks by hand tell for themselves whom they have woken. */
  async #observeWakes(): Promise<void> {
    const [server] = this.#props.lock.redis;
    if (!this.ours || server === undefined) return;
    const observed = await observeWakes(server.port, LOCK, this.#journal);
    this.#closers.push(async () => {
      observed.close();
      return Promise.resolve();
    });
  }

  #lineAt(lock: string): Line {
    const { redis, lookAt } = this.#props.lock;
    this.#line ??= new Line(lookAt(redis[0]?.port ?? 0), lock, this.#journal);
    return this.#line;
  }

  #look(port: number): ReturnType<typeof keyOn> {
    if (!this.ours) return keyOn(port, LOCK);
    const record = recordOn(this.#props.lock.lookAt(port), LOCK);
    this.#closers.push(async () => record.close());
    return record.look;
  }
}
