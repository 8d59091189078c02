import type { EvKind, EvOp, History, NewEv } from "../history.ts";
import { seedOf } from "./choices.ts";
import type { SimProcess } from "./process.ts";
import type { Scheduler } from "./scheduler.ts";

const NS = 1e6;
const LOW = 0xffff_ffffn;

const LANDS: ReadonlySet<EvOp> = new Set(["claim", "read", "write", "effect"]);

/** What an event carries besides who and when; times in milliseconds of the process's own clock. */
export type Facts = Omit<
  NewEv,
  "t" | "p" | "inc" | "k" | "f" | "lt" | "ttl" | "lockDelay" | "deadline"
> & {
  readonly ttlMs?: number;
  readonly lockDelayMs?: number;
  /** How long the lease may still be believed. */
  readonly remainingMs?: number;
};

/** What an event of the world itself carries. */
export type WorldFacts = Pick<NewEv, "err" | "rate" | "lt" | "inc"> & { readonly p?: string };

/** Writes what happens in a world into a history, and keeps a hash of it that tells two runs apart. */
export class Probe {
  readonly history: History | null;
  readonly #scheduler: Scheduler;
  readonly #hashes = new Map<string, number>();
  #hash = 0;
  #ops = 0;

  constructor(scheduler: Scheduler, history: History | null) {
    this.#scheduler = scheduler;
    this.history = history;
  }

  /** Of everything so far, in order. */
  get hash(): number {
    return this.#hash;
  }

  /** A number for a call. */
  op(): number {
    this.#ops += 1;
    return this.#ops;
  }

  /** Something that `who` did or saw. */
  ev(who: SimProcess, k: EvKind, f: EvOp, facts: Facts = {}): void {
    // What is left of a killed process's promises is nobody's any more; what it sent may still land.
    if (!who.alive && !(k === "event" && LANDS.has(f))) return;
    this.#mix(who, k, f, facts);
    if (this.history === null) return;
    const { ttlMs, lockDelayMs, remainingMs, ...rest } = facts;
    const lt = who.machine.boot() * NS;
    this.history.append({
      t: Math.round(this.#scheduler.now * NS),
      p: who.name,
      inc: who.incarnation,
      k,
      f,
      lt: Math.round(lt),
      ...rest,
      ...(ttlMs === undefined ? {} : { ttl: Math.round(ttlMs * NS) }),
      ...(lockDelayMs === undefined ? {} : { lockDelay: Math.round(lockDelayMs * NS) }),
      ...(remainingMs === undefined ? {} : { deadline: Math.round(lt + remainingMs * NS) }),
    });
  }

  /** Something that happened to the world. */
  world(f: EvOp, facts: WorldFacts = {}): void {
    const { p = "world", inc = 0, ...rest } = facts;
    this.#mix(p, "event", f, {});
    this.history?.append({
      t: Math.round(this.#scheduler.now * NS),
      p,
      inc,
      k: "event",
      f,
      ...rest,
    });
  }

  /** Of a text that comes again and again. */
  #hashOf(text: string): number {
    let hash = this.#hashes.get(text);
    if (hash === undefined) this.#hashes.set(text, (hash = seedOf(0, text)));
    return hash;
  }

  #mix(who: SimProcess | string, k: EvKind, f: EvOp, facts: Facts): void {
    const { grant = "", token = 0n, ver = 0, accepted } = facts;
    let hash = Math.imul(this.#hash ^ Math.round(this.#scheduler.now * 1000), 0x01000193);
    hash += typeof who === "string" ? this.#hashOf(who) : this.#hashOf(who.name) + who.incarnation;
    hash = Math.imul(hash, 0x01000193) ^ this.#hashOf(k);
    hash = Math.imul(hash, 0x01000193) ^ this.#hashOf(f);
    hash = Math.imul(hash, 0x01000193) ^ seedOf(0, grant);
    const low = Number(token & LOW);
    hash = Math.imul(hash ^ low, 0x85ebca6b) ^ Math.imul(Number(token >> 32n) + ver, 0xc2b2ae35);
    this.#hash = (hash ^ (accepted === undefined ? 0 : accepted ? 1 : 2)) >>> 0;
  }
}
