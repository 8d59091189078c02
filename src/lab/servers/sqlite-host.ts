import type { Driver, DriverContext, Notice } from "../../core/driver.ts";
import { sqliteDriverOn } from "../../drivers/sqlite/driver.ts";
import type { Sharing } from "../../drivers/sqlite/file.ts";
import type { Doorbells, System } from "../../drivers/sqlite/system.ts";
import type { LabCapabilities } from "../clients/core-client.ts";
import type { Site } from "../sim/choices.ts";
import type { Survival } from "../sim/disk.ts";
import { Machine } from "../sim/machine.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { LockPlace } from "./place.ts";
import { SqliteFile } from "./sqlite-file.ts";
import { RemoteBackend, type Tamper } from "./table.ts";
import { ServerTrace } from "./trace.ts";

/** How long a step takes, in milliseconds of true time. */
const STEP_MS = 0.1;
const RING_MS = 0.2;
const PATH = "/locks.db";

/** Weights of what may go wrong with a step, against one of 1 for nothing. */
export interface StepFaults {
  /** Its process is stopped before it, after it, or in the middle of it, when it holds the write lock. */
  readonly stalls?: number;
  /** It finds another writer. */
  readonly busy?: number;
  /** The disk fails at its commit, before or after it took effect. */
  readonly diskErrors?: number;
  /** Its process dies before its commit. */
  readonly deaths?: number;
  /** A doorbell is not heard. */
  readonly deaf?: number;
}

export interface SqliteHostOptions {
  readonly durability?: "normal" | "full";
  /** What the folder's file system is: `unknown` is one that several hosts may share. */
  readonly sharing?: Sharing;
  readonly tamper?: Tamper;
  /** Puts something between driver and file: a machine of another kind. */
  readonly system?: (system: System) => System;
  readonly faults?: StepFaults;
  /** How long a process stands still that was stopped in a step. */
  readonly stallsMs?: readonly number[];
}

/**
 * A host whose processes share one lock file: the production SQLite driver in each, on a modelled file. All have one set
 * of clocks, and no network between them and the lock.
 */
export class SqliteHost implements LockPlace {
  readonly name: string;
  readonly world: World;
  readonly machine: Machine;
  /** In whose name the file's own steps are recorded. */
  process: SimProcess;
  #options: SqliteHostOptions;
  readonly #trace: ServerTrace;
  readonly #files = new Map<string, { readonly file: SqliteFile; readonly inode: number }>();
  readonly #bells = new Map<string, () => void>();
  readonly #deaf: Site;
  #inodes = 0;

  constructor(world: World, name: string, options: SqliteHostOptions = {}) {
    this.world = world;
    this.name = name;
    this.#options = options;
    this.machine = new Machine("H", world.scheduler);
    this.process = world.start(name, this.machine);
    this.#trace = new ServerTrace(world, () => this.process);
    this.#deaf = world.choices.site("bells");
  }

  /** The file that is at the path now; made when there is none. */
  get file(): SqliteFile {
    let found = this.#files.get(PATH);
    if (found === undefined) {
      this.#inodes += 1;
      found = { file: new SqliteFile(), inode: this.#inodes };
      this.#files.set(PATH, found);
    }
    return found.file;
  }

  /** From now on every step goes well. */
  heal(): void {
    this.#options = { ...this.#options, faults: {} };
  }

  /** Removes the file from its path, as `rm` does: who has it open keeps it. */
  deleteFile(): void {
    this.#files.delete(PATH);
    this.world.probe.world("fault.net", { err: "the lock file was deleted" });
  }

  /** The power goes: `written` of the commits that no sync followed are on the disk by chance. All processes are dead. */
  powerOff(survival: Survival, options: { written?: number; wallMs?: number } = {}): void {
    this.#trace.voidAll();
    this.world.powerOff(this.machine, options.wallMs);
    this.#bells.clear();
    this.file.loseMemory(survival, options.written);
    this.process = this.world.start(this.name, this.machine);
  }

  startClient(name: string): SimProcess {
    return this.world.start(name, this.machine);
  }

  /** What a process on this host opens. */
  driverFor(client: SimProcess): Driver<LabCapabilities> {
    const { durability = "normal", system } = this.#options;
    const real = this.#systemOf(client);
    const driver = sqliteDriverOn(system?.(real) ?? real, PATH, { durability });
    return { ...driver, open: async (context) => this.#connect(client, driver, context) };
  }

  async #connect(
    client: SimProcess,
    driver: Driver,
    context: DriverContext,
  ): Promise<RemoteBackend> {
    const notify = (notice: Notice): void => {
      this.#trace.notice(notice);
      context.notify(notice);
    };
    const opened = await driver.open({ ...context, notify });
    const backend = this.#options.tamper?.(opened) ?? opened;
    const steps = new Steps(this.world, client, () => ({ file: this.file, ...this.#options }));
    return new RemoteBackend(
      async (_label, work) => await steps.run(async () => work(backend)),
      this.#trace,
    );
  }

  #systemOf(client: SimProcess): System {
    const fileIdentity = (path: string): string | null =>
      this.#files.get(path)?.inode.toString() ?? null;
    return {
      load: async () => ({
        name: "model",
        open: () => this.file.connect(client, this.#kill(client)),
      }),
      fileIdentity,
      leadsTo: (path, identity) => () => fileIdentity(path) === identity,
      prepareFile: () => this.file,
      localFileSystem: () => ({ name: "model", sharing: this.#options.sharing ?? "local" }),
      bells: (parts) => this.#bellsOf(client, parts),
    };
  }

  #kill(client: SimProcess): () => void {
    return () => {
      this.world.kill(client.name);
    };
  }

  #bellsOf(client: SimProcess, parts: Parameters<System["bells"]>[0]): Doorbells {
    const ring = (host: string): void => {
      const { deaf = 0 } = this.#options.faults ?? {};
      const hear = this.#bells.get(host);
      if (hear === undefined || (deaf > 0 && this.#deaf.pick([1, deaf]) === 1)) return;
      this.world.scheduler.after(RING_MS, hear);
    };
    return {
      deaf: false,
      listen: () => {
        this.#bells.set(parts.host, () => {
          client.enter(() => {
            parts.onRing();
          });
        });
      },
      rest: () => this.#bells.delete(parts.host),
      ring,
      sweep: () => undefined,
      close: () => this.#bells.delete(parts.host),
    };
  }
}

type Fate = "well" | "before" | "after" | "inside" | "busy" | "fails" | "fails, applied" | "dies";
const FATES: readonly Fate[] = [
  "well",
  "before",
  "after",
  "inside",
  "busy",
  "fails",
  "fails, applied",
  "dies",
];

/** The steps of one process: each runs at once and whole, and its outcome is seen a moment later. */
class Steps {
  readonly #world: World;
  readonly #client: SimProcess;
  readonly #host: () => SqliteHostOptions & { readonly file: SqliteFile };
  readonly #site: Site;

  constructor(
    world: World,
    client: SimProcess,
    host: () => SqliteHostOptions & { readonly file: SqliteFile },
  ) {
    this.#world = world;
    this.#client = client;
    this.#host = host;
    this.#site = world.choices.site(`file ${client.name}`);
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const fate = this.#fate();
    return await new Promise<T>((resolve, reject) => {
      const answer = (settle: () => void): void => {
        this.#world.scheduler.after(STEP_MS, () => {
          this.#client.goOn(settle);
        });
      };
      const step = (): void => {
        this.#spoil(fate);
        work().then(
          (value) => {
            answer(() => {
              resolve(value);
            });
          },
          (error: unknown) => {
            answer(() => {
              reject(error instanceof Error ? error : new Error(String(error)));
            });
          },
        );
        const { file } = this.#host();
        file.nextFault = null;
        file.isBusy = false;
        if (fate === "after" || fate === "inside") this.#stall();
        if (fate === "inside") file.stoppedWriter = this.#client;
      };
      if (fate === "before") this.#stall();
      this.#client.goOn(step);
    });
  }

  #fate(): Fate {
    const { stalls = 0, busy = 0, diskErrors = 0, deaths = 0 } = this.#host().faults ?? {};
    if (stalls + busy + diskErrors + deaths === 0) return "well";
    const weights = [1, stalls, stalls, stalls, busy, diskErrors, diskErrors, deaths];
    return FATES[this.#site.pick(weights)] ?? "well";
  }

  #spoil(fate: Fate): void {
    const { file } = this.#host();
    if (fate === "busy") file.isBusy = true;
    if (fate === "fails" || fate === "fails, applied" || fate === "dies") file.nextFault = fate;
  }

  #stall(): void {
    const { name, incarnation } = this.#client;
    const { stallsMs = [1000] } = this.#host();
    const ms = stallsMs[this.#site.among(stallsMs.length)] ?? 0;
    this.#world.pause(name);
    this.#world.scheduler.after(ms, () => {
      if (this.#world.process(name).incarnation === incarnation) this.#world.resume(name);
    });
  }
}
