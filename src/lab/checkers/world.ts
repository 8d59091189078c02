import type { Ev, EvMode } from "../history.ts";

/** A lease as its client saw it. */
export interface Lease {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly p: string;
  readonly mode: EvMode;
  readonly acquired: Ev;
  /** The call that asked for it. */
  readonly asked: Ev | undefined;
  /** The last renewal that was answered. */
  renewed: Ev | undefined;
  /** On the client's own clock; Infinity: only an event ends it. */
  deadline: number;
  /** What ended the belief before its deadline: the call of release, a notice, the client's death. */
  ended: Ev | undefined;
  /** When another lease of the lock came to be held after this one. */
  succeeded: Ev | undefined;
  revoked: boolean;
  /** An earlier lease under the same grant: one process handed the lock on inside itself. */
  before: Lease | undefined;
}

interface ClientClock {
  t: number;
  local: number;
  rate: number;
}

interface Life {
  dead: boolean;
  pausedSince: number | undefined;
  pausedNs: number;
}

const NO_LEASES: readonly Lease[] = [];

/**
 * What every property needs to know about the history so far: who believes what, which call an event completes, where an
 * action took effect, and how each client's clock runs. Bounded: leases that are over are forgotten, oldest first.
 */
export class World {
  /** Time of the first event. */
  origin = 0;
  /** Time of the last event. */
  now = 0;
  /** The call that the current event completes. */
  call: Ev | undefined;
  /** The current event is where a claim, read, write or effect took place. */
  lands = false;
  /** The lease that the current event is about. */
  lease: Lease | undefined;
  /** Faults have been seen and are not over. */
  chaos = false;
  healedAt: number | undefined;
  /** Leases that had to be forgotten. */
  forgotten = 0;
  readonly #limit: number;
  readonly #leases = new Map<string, Lease>();
  readonly #open = new Map<string, Lease[]>();
  readonly #last = new Map<string, Lease>();
  readonly #calls = new Map<number, Ev>();
  readonly #landed = new Set<number>();
  readonly #clocks = new Map<string, ClientClock>();
  readonly #lives = new Map<string, Life>();
  #started = false;

  constructor(limit = 200_000) {
    this.#limit = limit;
  }

  /** Takes the next event in. */
  step(event: Ev): void {
    if (!this.#started) this.origin = event.t;
    this.#started = true;
    this.now = event.t;
    this.#readClock(event);
    this.#joinCall(event);
    this.lands = this.#landsHere(event);
    this.lease = this.leaseOf(event);
    this.#follow(event);
  }

  /** The lease that an event names. */
  leaseOf(event: Pick<Ev, "grant" | "token">): Lease | undefined {
    if (event.grant === undefined) return undefined;
    const latest = this.#leases.get(event.grant);
    if (event.token === undefined) return latest;
    for (let lease = latest; lease !== undefined; lease = lease.before)
      if (lease.token === event.token) return lease;
    return latest?.token === undefined ? latest : undefined;
  }

  /** Leases of a lock that no event has ended; their deadlines may have passed. */
  open(lock: string): readonly Lease[] {
    return this.#open.get(lock) ?? NO_LEASES;
  }

  /** Whether the client may believe at `t`, which must not lie before the last event: its deadline is in the future. */
  believes(lease: Lease, t: number, epsilon = 0): boolean {
    if (lease.ended !== undefined && lease.ended.t <= t) return false;
    return this.local(lease.p, t) < lease.deadline - epsilon;
  }

  /** When the belief ends, or ended, as far as is known now. */
  endOf(lease: Lease): number {
    const clock = this.#clocks.get(lease.p);
    const byClock =
      clock === undefined ? lease.deadline : clock.t + (lease.deadline - clock.local) / clock.rate;
    return Math.min(byClock, lease.ended?.t ?? Infinity);
  }

  /** What a client's own clock reads at `t`. */
  local(p: string, t: number): number {
    const clock = this.#clocks.get(p);
    return clock === undefined ? t : clock.local + (t - clock.t) * clock.rate;
  }

  /** How long a client has stood still so far. */
  pausedNs(p: string): number {
    const life = this.#lives.get(p);
    if (life === undefined) return 0;
    return life.pausedNs + (life.pausedSince === undefined ? 0 : this.now - life.pausedSince);
  }

  isDead(p: string): boolean {
    return this.#lives.get(p)?.dead === true;
  }

  isPaused(p: string): boolean {
    return this.#lives.get(p)?.pausedSince !== undefined;
  }

  #readClock(event: Ev): void {
    const { p, lt, rate, t } = event;
    if (lt === undefined && rate === undefined) return;
    const known = this.#clocks.get(p);
    if (known === undefined)
      this.#clocks.set(p, { t, local: lt ?? this.local(p, t), rate: rate ?? 1 });
    else {
      known.local = lt ?? this.local(p, t);
      known.t = t;
      known.rate = rate ?? known.rate;
    }
  }

  #joinCall(event: Ev): void {
    const { op, k } = event;
    this.call = undefined;
    if (op === undefined) return;
    if (k === "invoke") {
      this.#calls.set(op, event);
      if (this.#calls.size > this.#limit) deleteOldest(this.#calls);
      return;
    }
    this.call = this.#calls.get(op);
    if (k !== "event") this.#calls.delete(op);
  }

  #landsHere(event: Ev): boolean {
    const { f, k, op } = event;
    if (f !== "claim" && f !== "read" && f !== "write" && f !== "effect") return false;
    if (k === "event") {
      if (op !== undefined) this.#landed.add(op);
      if (this.#landed.size > this.#limit) deleteOldest(this.#landed);
      return true;
    }
    if (op !== undefined && k !== "invoke" && this.#landed.delete(op)) return false;
    return k === "ok";
  }

  #follow(event: Ev): void {
    const { f, k, p } = event;
    const { lease } = this;
    if (f === "acquire" && k === "ok") this.#acquired(event);
    else if (f === "heal") {
      this.healedAt = event.t;
      this.chaos = false;
    } else if (f.startsWith("fault.")) {
      // To go on or to start again is no new fault.
      if (f !== "fault.resume" && f !== "fault.start") this.chaos = true;
      this.#live(event, p);
    } else if (lease === undefined) return;
    else if (f === "renew" && k === "ok") {
      lease.renewed = event;
      this.#extend(lease, event);
    } else if (f === "release" || f === "lost" || f === "revoke") {
      if (f === "revoke") lease.revoked = true;
      this.#end(lease, event);
    }
  }

  #live(event: Ev, p: string): void {
    const { f, t } = event;
    let life = this.#lives.get(p);
    if (life === undefined) {
      life = { dead: false, pausedSince: undefined, pausedNs: 0 };
      this.#lives.set(p, life);
    }
    if (f === "fault.pause") life.pausedSince ??= t;
    else if (f === "fault.resume" || f === "fault.kill") {
      if (life.pausedSince !== undefined) life.pausedNs += t - life.pausedSince;
      life.pausedSince = undefined;
    }
    if (f === "fault.start") life.dead = false;
    if (f !== "fault.kill") return;
    life.dead = true;
    for (const leases of this.#open.values())
      for (const lease of leases.filter((open) => open.p === p)) this.#end(lease, event);
  }

  #acquired(event: Ev): void {
    const { lock, grant, p, token } = event;
    if (lock === undefined || grant === undefined) return;
    const known = this.#leases.get(grant);
    // The same lease again: an answer that came twice, or a re-entry.
    if (known !== undefined && isSame(known, token)) {
      this.#extend(known, event);
      this.lease = known;
      return;
    }
    const lease: Lease = {
      lock,
      grant,
      token,
      p,
      mode: event.mode ?? "exclusive",
      acquired: event,
      asked: this.call,
      renewed: undefined,
      deadline: event.deadline ?? Infinity,
      ended: undefined,
      succeeded: undefined,
      revoked: false,
      before: known,
    };
    // An answer to the one before may still come; nobody asks after older ones.
    if (known?.before !== undefined) known.before.before = undefined;
    this.lease = lease;
    this.#leases.delete(grant);
    this.#leases.set(grant, lease);
    const last = this.#last.get(lock);
    if (last !== undefined) last.succeeded ??= event;
    this.#last.set(lock, lease);
    // Those whose deadline has passed are over without any event.
    const open = this.open(lock).filter((other) => this.believes(other, event.t));
    for (const other of open) other.succeeded ??= event;
    this.#open.set(lock, [...open, lease]);
    if (this.#leases.size > this.#limit) this.#forget();
    if (this.#last.size > this.#limit) deleteOldest(this.#last);
  }

  /** A longer deadline; one that had passed lives again. */
  #extend(lease: Lease, { deadline }: Ev): void {
    if (deadline === undefined) return;
    lease.deadline = deadline;
    const open = this.#open.get(lease.lock);
    if (lease.ended !== undefined || open?.includes(lease) === true) return;
    this.#open.set(lease.lock, [...(open ?? []), lease]);
  }

  #end(lease: Lease, event: Ev): void {
    lease.ended ??= event;
    const open = this.#open.get(lease.lock);
    const index = open?.indexOf(lease) ?? -1;
    if (open === undefined || index < 0) return;
    open.splice(index, 1);
    if (open.length === 0) this.#open.delete(lease.lock);
  }

  #forget(): void {
    const excess = this.#leases.size - Math.floor(this.#limit * 0.75);
    let dropped = 0;
    for (const [grant, lease] of this.#leases) {
      if (dropped >= excess) break;
      if (lease.ended === undefined && this.believes(lease, this.now)) continue;
      this.#leases.delete(grant);
      dropped += 1;
    }
    this.forgotten += dropped;
  }
}

/** Removes what was added first. */
export function deleteOldest<T>(from: Map<T, unknown> | Set<T>): void {
  for (const key of from.keys()) {
    from.delete(key);
    return;
  }
}

function isSame(lease: Lease, token: bigint | undefined): boolean {
  return lease.token === token && lease.ended === undefined;
}
