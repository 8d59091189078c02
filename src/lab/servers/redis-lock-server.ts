import { Disk, type Survival } from "../sim/disk.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { AppendOnly } from "./redis.ts";
import type { Host, Session } from "./redis-lock-link.ts";
import { runRedisScript, type ScriptCall } from "./redis-lock-scripts.ts";
import { copyOf, expire, type NameState, type RedisLocks, sameNames } from "./redis-lock-state.ts";
import { lockOf, traceScript } from "./redis-lock-trace.ts";
import { hashOf, SCRIPT_HASHES, scriptOf } from "./redis-words.ts";
import type { ServerTrace } from "./trace.ts";

/** What a write did: the name as it is now, or nothing of any name. */
type Effect =
  | { readonly base: string; readonly state: NameState }
  | { readonly base: null; readonly state: null };

interface Replica {
  readonly server: RedisLockServer;
  acked: number;
}

/**
 * One Redis with the driver's scripts: a cache of scripts that dies with the process, keys that end by its wall clock,
 * subscribers, replication that is asynchronous and in order, and an append-only file, if any. A replica that missed
 * something stays behind.
 */
export class RedisLockServer implements Host {
  readonly name: string;
  process: SimProcess;
  leads: boolean;
  readonly #world: World;
  readonly #trace: () => ServerTrace;
  readonly #appendOnly: AppendOnly;
  readonly #disk = new Disk<Effect>();
  readonly #sessions = new Set<Session>();
  readonly #busy = new Map<Session, Promise<unknown>>();
  readonly #channels = new Map<string, Set<Session>>();
  readonly #scripts = new Set<string>();
  readonly #replicas: Replica[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #early = new Map<number, readonly Effect[]>();
  #names: RedisLocks = new Map();
  #offset = 0;

  constructor(
    world: World,
    name: string,
    facts: {
      readonly leads: boolean;
      readonly appendOnly: AppendOnly;
      /** Somebody used the scripts since it started. */
      readonly warm: boolean;
      readonly trace: () => ServerTrace;
    },
  ) {
    this.name = name;
    this.leads = facts.leads;
    this.#world = world;
    this.#trace = facts.trace;
    this.#appendOnly = facts.appendOnly;
    this.process = world.start(name);
    if (facts.warm) for (const hash of SCRIPT_HASHES) this.#scripts.add(hash);
    if (facts.appendOnly === "everysec") this.#syncLater();
  }

  /** Its copy, from now on; the first full copy takes no time. */
  replicateTo(server: RedisLockServer): void {
    this.#replicas.push({ server, acked: this.#offset });
    server.#offset = this.#offset;
    server.#early.clear();
    server.#names = new Map([...this.#names].map(([base, state]) => [base, copyOf(state)]));
  }

  /** Starts again, as a replica. */
  follow(primary: RedisLockServer): void {
    this.process = this.#world.start(this.name);
    this.leads = false;
    this.#replicas.length = 0;
    primary.replicateTo(this);
  }

  accept(session: Session): void {
    this.#sessions.add(session);
  }

  knows(session: Session): boolean {
    return this.#sessions.has(session);
  }

  listen(session: Session, channel: string): void {
    const listeners = this.#channels.get(channel) ?? new Set();
    this.#channels.set(channel, listeners.add(session));
  }

  /** A connection that waits for replicas answers nothing else meanwhile. */
  answer(session: Session, command: readonly string[]): unknown {
    const before = this.#busy.get(session);
    if (before !== undefined) {
      const after: Promise<unknown> = before.then(() => this.answer(session, command));
      return after;
    }
    const answer: unknown = this.#execute(command);
    if (!(answer instanceof Promise)) return answer;
    this.#busy.set(session, answer);
    const answered: Promise<unknown> = answer.then((value: unknown) => {
      this.#busy.delete(session);
      return value;
    });
    return answered;
  }

  /** Whether it has this lease, share or place in a line. */
  has(lock: string, grant: string): boolean {
    for (const [base, { lock: key, records }] of this.#names)
      if (lockOf(base) === lock && (key?.lease?.id === grant || records.has(grant))) return true;
    return false;
  }

  /** Everything is deleted, as by FLUSHALL. */
  flush(): void {
    this.#names.clear();
    this.#write([{ base: null, state: null }]);
    this.#trace().forget();
  }

  /** Dies: its connections end, as far as anybody hears of it. */
  kill(): void {
    this.#world.kill(this.name);
    for (const { reset } of this.#sessions) reset();
    this.#sessions.clear();
    this.#busy.clear();
    this.#channels.clear();
    this.#scripts.clear();
    this.#waiting.clear();
  }

  /** Dies, and starts again with what its file has. */
  restart(survival: Survival): void {
    this.kill();
    this.process = this.#world.start(this.name);
    this.#names = new Map();
    const left = this.#appendOnly === "no" ? [] : this.#disk.recover(survival);
    for (const effect of left) this.#apply(effect);
    this.#trace().forget((lock, grant) => this.has(lock, grant));
  }

  get #us(): bigint {
    return BigInt(Math.floor(this.process.machine.wall() * 1000));
  }

  #execute(command: readonly string[]): unknown {
    const [word = "", ...args] = command;
    switch (word.toUpperCase()) {
      case "EVALSHA":
        return this.#script(args[0] ?? "", args.slice(1));
      case "EVAL": {
        const hash = hashOf(args[0] ?? "");
        this.#scripts.add(hash);
        return this.#script(hash, args.slice(1));
      }
      case "PING":
        return "PONG";
      case "TIME":
        return [String(this.#us / 1_000_000n), String(this.#us % 1_000_000n)];
      case "SCAN":
        return ["0", this.#lockKeys()];
      case "ROLE":
        return this.leads
          ? ["master", this.#offset, this.#replicas.map(({ server }) => [server.name, "0", "0"])]
          : ["slave", "", 0, "connected", this.#offset];
      case "WAIT":
        return this.#wait(Number(args[0]), Number(args[1]));
      default:
        return new Error(`ERR unknown command '${word}' in the simulator`);
    }
  }

  #lockKeys(): string[] {
    const now = Number(this.#us / 1000n);
    for (const name of this.#names.values()) expire(name, now);
    return [...this.#names].flatMap(([base, { lock }]) => (lock === null ? [] : [`${base}l`]));
  }

  #script(hash: string, [count, ...words]: readonly string[]): unknown {
    const name = scriptOf(hash);
    if (name === undefined || !this.#scripts.has(hash))
      return new Error("NOSCRIPT No matching script. Please use EVAL.");
    const us = this.#us;
    const lateMs = this.process.machine.wall() - Number(us / 1000n);
    const call = { name, keys: words.slice(0, Number(count)), args: words.slice(Number(count)) };
    if (!this.leads) return this.#readOnly(us, call);
    const { reply, wakes, touched } = runRedisScript(this.#names, us, call);
    traceScript(this.#trace(), call, reply, lateMs);
    for (const { channel, grantId } of wakes) {
      this.#trace().notice({ kind: "wake", grantId });
      for (const session of this.#channels.get(channel) ?? []) session.wake(grantId);
    }
    if (this.#replicas.length > 0 || this.#appendOnly !== "no")
      this.#write(
        touched.flatMap((base): Effect[] => {
          const state = this.#names.get(base);
          return state === undefined ? [] : [{ base, state: copyOf(state) }];
        }),
      );
    return reply;
  }

  /** A replica refuses a script at its first write; what only reads is answered. */
  #readOnly(us: bigint, call: ScriptCall): unknown {
    for (const name of this.#names.values()) expire(name, Number(us / 1000n));
    const names = new Map([...this.#names].map(([base, state]) => [base, copyOf(state)]));
    const { reply } = runRedisScript(names, us, call);
    if (sameNames(this.#names, names)) return reply;
    return new Error("READONLY You can't write against a read only replica.");
  }

  #write(effects: readonly Effect[]): void {
    if (this.#appendOnly !== "no") for (const effect of effects) this.#disk.append(effect);
    if (this.#appendOnly === "always") this.#disk.sync();
    this.#offset += 1;
    const offset = this.#offset;
    for (const replica of this.#replicas) {
      const from = this.process;
      const { server } = replica;
      const ack = (): void => {
        replica.acked = Math.max(replica.acked, server.#offset);
        for (const look of this.#waiting) look();
      };
      const deliver = (): void => {
        server.#receive(offset, effects);
        this.#world.net.send({ from: server.process, to: from, label: "ack", deliver: ack });
      };
      this.#world.net.send({ from, to: server.process, label: "replicate", deliver });
    }
  }

  /** Replication is a stream: what comes early waits. */
  #receive(offset: number, effects: readonly Effect[]): void {
    if (this.leads) return;
    this.#early.set(offset, effects);
    for (let next = this.#early.get(this.#offset + 1); next !== undefined; ) {
      this.#offset += 1;
      this.#early.delete(this.#offset);
      for (const effect of next) this.#apply(effect);
      next = this.#early.get(this.#offset + 1);
    }
  }

  #apply({ base, state }: Effect): void {
    if (base === null) this.#names.clear();
    else this.#names.set(base, copyOf(state));
  }

  async #wait(replicas: number, timeoutMs: number): Promise<number> {
    const wanted = this.#offset;
    const count = (): number => this.#replicas.filter(({ acked }) => acked >= wanted).length;
    return await new Promise((resolve) => {
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
      look();
    });
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
