import type { Adoption } from "../../core/guard.ts";
import type { LockTerms } from "../clients/client.ts";
import type { Update } from "../workloads/ledger.ts";
import type { ArmName } from "./scenario.ts";

/** What a server finds when it starts again; see `Disk`. */
type Survival = "page-cache" | "synced" | "nothing";

/** A lease as a scenario holds it: in this process, or in another one. */
export interface PlayHeld {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope: string;
  /** Asks the lease itself, and records the answer. */
  believes(): boolean | Promise<boolean>;
  /** Renews by hand, for `ttlMs`. Never rejects. */
  renew?(ttlMs: number): Promise<void>;
  release(): Promise<void>;
  /** Ends the lease here, and returns what another process needs to go on with it. */
  handOver?(): Promise<string>;
}

/** A client of a scenario. */
export interface PlayClient {
  acquire(lock: string, terms: LockTerms): Promise<PlayHeld | null>;
  /** Goes on with a lease that was handed over; `null` when it was refused. */
  resume?(exported: string, lock: string, terms: LockTerms): Promise<PlayHeld | null>;
}

/** A message of a call, as far as a scenario tells one from another: `write`, `attempt`, `attempt reply`. */
export interface PlayMessage {
  readonly label: string;
}

/** Messages that are kept on their way; calling it sends them on. */
export interface Hold {
  (): void;
  /** Resolves once one is kept. */
  readonly caught: Promise<void>;
}

/** What was asked of a service that cannot check a token. */
export interface Order {
  readonly key: string;
  readonly body: string;
}

/**
 * What a scenario does things with, whether the world is simulated or the servers and processes are real. Names of
 * processes are the same in both: clients by letters, `S`, `S1`, … the servers of the lock, `X` the resource, `Y` a
 * service that cannot check. Times are milliseconds.
 */
export interface Play {
  readonly armName: ArmName;
  /** Whether the lock is Ringfence's. */
  readonly ours: boolean;
  /** Names of the lock's servers; the first is the primary. */
  readonly servers: readonly string[];
  readonly server: string;
  /** Since the scenario began. */
  readonly now: number;

  /** The lock client of this name; starts its process at the first use. */
  client(name: string): PlayClient;
  /** @throws Error when it came to nothing: a scenario that needs the lock cannot go on */
  acquire(name: string, terms: LockTerms, lock?: string): Promise<PlayHeld>;
  /**
   * Resolves once so many stand in line for the lock: as its store tells, and where that keeps no line, as those do who were
   * refused and ask again.
   */
  lined(count: number, lock?: string): Promise<void>;
  /** Several locks as the arm's users take them; resolves to their release. */
  acquireAll(
    name: string,
    locks: readonly string[],
    terms: LockTerms,
  ): Promise<() => Promise<void>>;
  /** Acquire, open, work, write, release. */
  section(name: string, terms: LockTerms, workMs?: number): Promise<void>;
  /** Claims where the guard is of that kind, then reads. */
  open(name: string, held: PlayHeld, res?: string): Promise<number>;
  claim(name: string, held: PlayHeld, res?: string): Promise<boolean>;
  read(name: string, held: PlayHeld, res?: string): Promise<number>;
  /** The version that was written; `null` when it was refused. */
  write(name: string, held: PlayHeld, from: number, res?: string): Promise<number | null>;
  /** A write past every check, as by an operator at the database. */
  byHand(name: string, work: (from: number) => Promise<void>, res?: string): Promise<void>;
  /** Moves what is protected to another lock's scope, as an operator does at the resource itself. */
  adopt(adoption: Adoption, res?: string): void;
  /** Updates data in a PostgreSQL under a lease, in one transaction: whether it was committed. */
  update(name: string, held: PlayHeld, how: Update): Promise<boolean>;
  /** Asks a service that cannot check for an effect; `business` names it for the judge. */
  order(name: string, held: PlayHeld, business: string, order: Order): Promise<void>;
  /** Frees a lock from outside, as an operator does. */
  revoke(name: string, lock?: string): Promise<void>;

  /** By the process's own clock. */
  sleep(name: string, ms: number): Promise<void>;
  /** True time; for the scenario's own steps, not for a client's. */
  after(ms: number): Promise<void>;
  /** Stops a process here, in the middle of what it does; it goes on `ms` later. */
  stall(name: string, ms: number): Promise<void>;
  pauseFor(name: string, ms: number): void;
  kill(name: string): void;
  /** Keeps matching messages on their way until the returned function is called. */
  hold(from: string, to: string, match: string | ((message: PlayMessage) => boolean)): Hold;
  /** Loses the next `count` matching messages. */
  drop(from: string, to: string, match: (message: PlayMessage) => boolean, count?: number): void;
  /** Cuts the line between two: what is sent is lost. */
  cut(a: string, b: string, oneWay?: boolean): void;
  /** Moves a wall clock. */
  step(name: string, ms: number): void;
  /** A lock server dies and starts again with what is left. */
  restartServer(name: string, survival: Survival): Promise<void>;
  /** The primary dies and its first replica takes over; a single server comes back without its memory. */
  failOver(): Promise<void>;
  /** The server runs out of memory, and does what its settings say. */
  fillMemory(): Promise<void>;
  /** Something that has to come to an end: what does not is a lack of progress. */
  must(what: string, work: Promise<unknown>): Promise<void>;
}
