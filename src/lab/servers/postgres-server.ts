import type { Survival } from "../sim/disk.ts";
import type { MachineOptions } from "../sim/machine.ts";
import type { SimProcess } from "../sim/process.ts";
import { Line } from "../sim/stream.ts";
import type { World } from "../sim/world.ts";
import { Engine, type EngineSettings, type LogRecord, ServerComplaint } from "./postgres-engine.ts";
import { GUARD_MODEL } from "./postgres-guard.ts";
import { PLAIN_MODEL } from "./postgres-plain.ts";
import { type Pooler, poolerOf } from "./postgres-pooler.ts";
import type { Asked } from "./postgres-script.ts";
import { type Reply, Session } from "./postgres-session.ts";
import { MODEL } from "./postgres-statements.ts";
import type { Model } from "./postgres-values.ts";

/** How a server is set up. */
export interface PostgresOptions extends EngineSettings {
  /** How many sessions a pooler in transaction mode shares among all who come: it stands in front of the server. */
  readonly pooler?: number;
  readonly clocks?: MachineOptions;
  /** Other statements, or a planted fault. */
  readonly model?: Readonly<Record<string, Model>>;
}

/** What takes messages of one client: a session, or a pooler in front of several. */
export interface Front {
  readonly pid: number;
  send(asked: readonly Asked[], answer: (reply: Reply) => void): void;
  /** The client is gone. */
  forsake(): void;
}

const ALL: Readonly<Record<string, Model>> = { ...MODEL, ...PLAIN_MODEL, ...GUARD_MODEL };

/** A PostgreSQL in a process of its own: the engine, its sessions over connections, its log on a disk, and its standby. */
export class PostgresServer {
  readonly world: World;
  readonly name: string;
  readonly engine: Engine;
  process: SimProcess;
  readonly #options: PostgresOptions;
  readonly #sessions = new Map<number, Session>();
  readonly #owners = new Map<number, string>();
  readonly #listeners = new Map<string, Set<(payload: string) => void>>();
  #pooler: Pooler | null = null;
  #pids = 0;

  constructor(world: World, name: string, options: PostgresOptions = {}) {
    this.world = world;
    this.name = name;
    this.#options = options;
    this.process = world.start(name, options.clocks ?? {});
    const host = {
      micros: () => Math.floor(this.process.clock.wall() * 1000),
      timer: (ms: number, fn: () => void) => this.process.clock.timer(ms, fn),
    };
    this.engine = new Engine(host, options);
    this.engine.onNotify = (channel, payload) => {
      for (const tell of this.#listeners.get(channel) ?? []) tell(payload);
    };
    this.#open();
  }

  /** Dies at once, all its sessions with it, and starts again with what of its log is left. */
  restart(survival: Survival): void {
    this.world.kill(this.name);
    // Not ended: what one of them would let go of is nobody's any more.
    this.#sessions.clear();
    this.#owners.clear();
    this.#listeners.clear();
    this.engine.recover(survival);
    this.process = this.world.start(this.name);
    this.#open();
  }

  /** What it logs goes to another server, which is its standby from now on, as long as the line between them lives. */
  replicateTo(standby: PostgresServer): void {
    const line = new Line(
      this.world.net,
      this.process,
      () => standby.process,
      () => undefined,
    );
    this.engine.onLog = (record) => {
      line.send("wal", () => {
        standby.receive(record);
      });
    };
  }

  receive(record: LogRecord): void {
    this.engine.log.append(record);
    this.engine.log.sync();
  }

  /** A standby becomes a server of its own, with what it has received. */
  promote(): void {
    this.engine.replay(this.engine.log.recover("page-cache"));
    this.world.probe.world("fault.net", { err: `${this.name} promoted` });
  }

  /** As `pg_terminate_backend`, for every session of a process. */
  terminate(client: string): void {
    for (const [pid, of] of this.#owners)
      if (of === client)
        this.#sessions
          .get(pid)
          ?.end(
            new ServerComplaint(
              "57P01",
              "terminating connection due to administrator command",
              "FATAL",
            ),
          );
  }

  /** A session of its own, whoever uses it. */
  session(owner: string, onEnd: (complaint: ServerComplaint | null) => void): Session {
    this.#pids += 1;
    const pid = this.#pids;
    const session = new Session(this.engine, pid, this.#options.model ?? ALL, (complaint) => {
      this.#sessions.delete(pid);
      this.#owners.delete(pid);
      onEnd(complaint);
    });
    this.#sessions.set(pid, session);
    this.#owners.set(pid, owner);
    return session;
  }

  listen(channel: string, tell: (payload: string) => void): void {
    const all = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, all.add(tell));
  }

  unlisten(tell: (payload: string) => void): void {
    for (const all of this.#listeners.values()) all.delete(tell);
  }

  /** What a new connection is put in front of. */
  front(owner: string, onEnd: (complaint: ServerComplaint | null) => void): Front {
    return this.#pooler?.front(owner, onEnd) ?? this.session(owner, onEnd);
  }

  #open(): void {
    const { pooler } = this.#options;
    this.#pooler = pooler === undefined ? null : poolerOf(this, pooler);
  }
}
