import type { Clock } from "../../core/clock.ts";
import type { Random } from "../../core/random.ts";
import type { EvKind, EvOp } from "../history.ts";
import type { RedisCommand, RedisReply } from "../servers/redis-state.ts";
import type { Facts } from "../sim/probe.ts";

/** The process that a client of a scenario runs in, simulated or real. */
export interface ClientProcess {
  readonly name: string;
  /** 0 for the first of its name. */
  readonly incarnation: number;
  readonly clock: Clock;
  readonly random: Random;
  /** Resolves after `ms` of its own clock. */
  sleep(ms: number): Promise<void>;
}

/** Where a client writes down what it does and sees. */
export interface ClientWorld {
  readonly probe: {
    /** A number for a call. */
    op(): number;
    ev(who: ClientProcess, k: EvKind, f: EvOp, facts?: Facts): void;
  };
}

/** A Redis as a client reaches it: the model, or a real one. */
export interface RedisPort {
  /** One command. Waits for its answer for ever. */
  call(client: ClientProcess, command: RedisCommand): Promise<RedisReply>;
  /** Blocks until so many replicas have everything, or `timeoutMs` passed; returns how many have. */
  wait(client: ClientProcess, replicas: number, timeoutMs: number): Promise<number>;
  /**
   * Tells of every deletion of `key`; the message may be lost. With `once`, of one, the oldest asker alone. Resolves when
   * the server knows who is to be told.
   */
  subscribe(
    client: ClientProcess,
    key: string,
    onMessage: () => void,
    once?: boolean,
  ): Promise<void>;
}

/** A lease as a scenario holds it, whoever gave it. */
export interface Held {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope: string;
  /** Asks the lease itself, and records the answer. */
  believes(): boolean;
  /** Renews by hand, for `ttlMs`. Never rejects. */
  renew?(ttlMs: number): Promise<void>;
  release(): Promise<void>;
  /** Ends the lease here, and returns what another process needs to go on with it. */
  handOver?(): Promise<string>;
}

/** How a lease is asked for in a scenario; times in milliseconds. */
export interface LockTerms {
  readonly ttlMs: number;
  readonly waitMs?: number;
  readonly lockDelayMs?: number;
  /** The longest hold; naive locks know no such thing. */
  readonly maxHoldMs?: number;
  /** Renewed by itself. */
  readonly renews?: boolean;
  /** Beside other readers; naive locks know no such thing. */
  readonly shared?: boolean;
}

/** A lock client of a scenario: the production manager, or a naive one. */
export interface LockClient {
  /** `null` when it came to nothing. */
  acquire(lock: string, terms: LockTerms): Promise<Held | null>;
  /** Goes on with a lease that was handed over; `null` when it was refused. */
  resume?(exported: string, lock: string, terms: LockTerms): Promise<Held | null>;
}
