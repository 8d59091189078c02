/**
 * Locks in the memory of one process. The store belongs to the driver object: managers that share the object contend,
 * others never meet; it is gone when the process ends.
 *
 * - Layout: a Map from name to `Lock` (holders, queue, last token) for each namespace, and one token floor.
 * - The atomic step: JavaScript runs each method below to its end before anything else, so every step is one.
 * - Exclusion: a grant is added only where `hasRoom` saw none that is neither released nor past its end. Ends are
 *   times of the host's monotonic clock, which the holder counts on as well, from an earlier moment and with a margin.
 * - Tokens: max(last of this name + 1, floor + 1, wall clock in µs). A name that nobody needs is dropped, and its last
 *   token goes into the floor: numbers rise for as long as the driver object lives. A new process starts from its
 *   wall clock, so after a restart with a clock that went back they may be below those of the process before.
 * - Order: a free lock is offered to the oldest live waiter, and to no one else for min(its ttl, 3 s). There are no
 *   timers: what is over is noticed at the next step on the name, and the head of the queue polls at that moment.
 * - What breaks it: handing one driver object different clocks, or expecting it to reach another process.
 */
import type { Capabilities, Mode } from "../../core/capabilities.ts";
import type { Clock } from "../../core/clock.ts";
import {
  type Answer,
  type Ask,
  type Backend,
  type Busy,
  type Driver,
  type DriverContext,
  DriverError,
  type Finding,
  type Granted,
  type GrantRef,
  type LockRecord,
  type Notice,
  type Release,
  type Renewal,
} from "../../core/driver.ts";
import { Grant } from "./grant.ts";
import type { Lock } from "./lock.ts";
import { MAX_RANK, Queue, Waiter, type Wakeable } from "./queue.ts";
import { listNames, recordOf } from "./records.ts";
import { Store, type TokenFloor } from "./store.ts";

/** What the memory driver promises. */
export interface MemoryCapabilities extends Capabilities {
  readonly fencing: "volatile";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "host-monotonic";
  readonly modes: Mode;
}

const VANISHED = { kind: "vanished" } as const;
const RELEASED = { kind: "released" } as const;

/**
 * A driver that keeps its locks in this process, for one process and for tests. Managers made with one driver object
 * see each other's locks; a second call makes a separate world. It promises nothing across processes or restarts.
 */
export function memoryDriver(): Driver<MemoryCapabilities> {
  const floor: TokenFloor = { value: 0n };
  const stores = new Map<string, Store>();
  return {
    name: "memory",
    fencing: "volatile",
    waiting: "queue",
    liveness: "ttl",
    clock: "host-monotonic",
    modes: ["exclusive", "shared", "permits"],
    ttl: { minMs: 50, stepMs: 1 },
    mints: "at-grant",
    transfer: "no",
    retains: "yes",
    async open(context: DriverContext): Promise<Backend> {
      let store = stores.get(context.namespace);
      if (store === undefined) {
        store = new Store(floor);
        stores.set(context.namespace, store);
      }
      return new MemoryBackend(store, context);
    },
  };
}

class MemoryBackend implements Backend, Wakeable {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #notify: (notice: Notice) => void;
  #closed = false;

  constructor(store: Store, context: DriverContext) {
    this.#store = store;
    this.#clock = context.clock;
    this.#notify = context.notify;
  }

  async attempt(ask: Ask): Promise<Answer> {
    const now = this.#begin();
    const answer = this.#attempt(ask, now);
    this.#end();
    return answer;
  }

  async renew(grants: readonly GrantRef[]): Promise<readonly Renewal[]> {
    const now = this.#begin();
    const answers: Renewal[] = [];
    for (const grant of grants) answers.push(this.#renew(grant, now));
    return answers;
  }

  async release(grants: readonly GrantRef[]): Promise<readonly Release[]> {
    const now = this.#begin();
    const answers: Release[] = [];
    for (const grant of grants) answers.push(this.#release(grant, now));
    this.#end();
    return answers;
  }

  async revoke(order: {
    readonly name: string;
    readonly grantId: string;
    readonly now: boolean;
  }): Promise<Release> {
    const now = this.#begin();
    const store = this.#store;
    const lock = store.locks.get(order.name);
    lock?.settle(now);
    const grant = lock?.grantOf(order.grantId, now);
    if (lock === undefined || grant === undefined)
      return { kind: "gone", reason: store.whyGone(order.grantId, lock, now) };
    store.refuseRevoked(order.grantId, now, grant.ttlMs);
    if (order.now || grant.lockDelayMs === 0) lock.remove(grant, now, false);
    else lock.cutShort(grant, now);
    lock.makeOffers(now, null, store.wakes);
    store.retire(order.name, lock, now);
    this.#end();
    return RELEASED;
  }

  async inspect(name: string): Promise<LockRecord> {
    return recordOf(name, this.#store.locks.get(name), this.#begin());
  }

  async list(page: {
    readonly prefix: string;
    readonly limit: number;
    readonly cursor?: string;
  }): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    return listNames(this.#store.locks, page, this.#begin());
  }

  async probe(): Promise<readonly Finding[]> {
    return [];
  }

  /** Ends this connection only: leases and queue entries stay until they lapse, as on any server. */
  async close(): Promise<void> {
    this.#closed = true;
  }

  wake(grantId: string): void {
    if (!this.#closed) this.#notify({ kind: "wake", grantId });
  }

  #begin(): number {
    if (this.#closed)
      throw new DriverError("unavailable", "not-applied", "This memory backend was closed.");
    return this.#clock.mono();
  }

  /** Wakes go out when the step is over: a listener may ask again at once, and must not find half a step. */
  #end(): void {
    if (this.#store.wakes.length === 0) return;
    const wakes = this.#store.wakes;
    this.#store.wakes = [];
    for (const waiter of wakes) waiter.owner.wake(waiter.grantId);
  }

  #attempt(ask: Ask, now: number): Answer {
    const store = this.#store;
    if (store.refuses(ask.grantId, now)) return VANISHED;
    const known = store.locks.get(ask.name);
    known?.settle(now);
    const own = known?.grantOf(ask.grantId, now);
    if (own !== undefined) {
      // Never sooner: this may be a late packet, and the holder have renewed for longer since.
      if (now + ask.ttlMs > own.expiresAt) own.restart(now, ask);
      return granted(own);
    }
    const waiter = known?.queue?.get(ask.grantId);
    if (ask.join === "kept" && waiter === undefined) return VANISHED;
    const lock = known ?? store.add(ask.name, now);
    if (ask.mode === "permits" && !lock.agreeOn(ask.permits, now)) {
      if (waiter !== undefined) lock.leave(waiter);
      return { kind: "mismatch", permits: lock.permits };
    }
    // Heard first: a waiter that was silent for long is live again, at its old place, before anything is offered.
    const place = waiter === undefined ? undefined : lock.queue?.heard(waiter, now);
    const nobodyBefore = lock.makeOffers(now, ask.grantId, store.wakes);
    const enters =
      waiter === undefined ? nobodyBefore && lock.hasRoom(ask.mode) : waiter.offerUntil >= 0;
    if (enters) return this.#grant(ask, lock, waiter, now);
    if (waiter !== undefined && ask.join === "no") {
      lock.leave(waiter);
      return busy(ask, lock, undefined, now);
    }
    return busy(ask, lock, place ?? this.#join(ask, lock, now), now);
  }

  #grant(ask: Ask, lock: Lock, waiter: Waiter | undefined, now: number): Granted {
    const store = this.#store;
    const past = { takenOver: lock.abandonedAt >= 0, previousToken: lock.top };
    const count = ask.mode === "exclusive" ? ask.tokens : 1;
    const wall = this.#clock.wall();
    let first: bigint | null = null;
    if (ask.mode !== "permits") first = store.mint(lock, count, ask.above, wall);
    const grant = new Grant(ask, { first, count }, past, wall);
    grant.restart(now, ask);
    if (waiter !== undefined) lock.leave(waiter);
    lock.add(grant, ask.mode);
    return granted(grant);
  }

  #join(ask: Ask, lock: Lock, now: number): ReturnType<Queue["heard"]> | undefined {
    if (ask.join === "no") return undefined;
    lock.queue ??= new Queue();
    const waiter = new Waiter(ask, this);
    return lock.queue.add(waiter, now) ? lock.queue.heard(waiter, now) : undefined;
  }

  #renew(ref: GrantRef, now: number): Renewal {
    const lock = this.#store.locks.get(ref.name);
    const grant = lock?.grantOf(ref.grantId, now);
    if (grant !== undefined) {
      grant.restart(now, ref);
      return { kind: "renewed", ttlMs: ref.ttlMs };
    }
    lock?.settle(now);
    const waiter = lock?.queue?.get(ref.grantId);
    if (waiter !== undefined) {
      lock?.queue?.heard(waiter, now);
      return { kind: "renewed", ttlMs: ref.ttlMs };
    }
    return { kind: "gone", reason: this.#store.whyGone(ref.grantId, lock, now) };
  }

  #release(ref: GrantRef, now: number): Release {
    const store = this.#store;
    if (ref.refuseLateMs !== undefined && ref.refuseLateMs > 0)
      store.refuse(ref.grantId, now, ref.refuseLateMs);
    const lock = store.locks.get(ref.name);
    lock?.settle(now);
    const grant = lock?.grantOf(ref.grantId, now);
    const waiter = lock?.queue?.get(ref.grantId);
    if (lock === undefined || (grant === undefined && waiter === undefined))
      return { kind: "gone", reason: store.whyGone(ref.grantId, lock, now) };
    if (waiter !== undefined) lock.leave(waiter);
    if (grant !== undefined) {
      lock.remove(grant, now, true);
      if (ref.raiseTo !== undefined) store.raise(ref.raiseTo);
    }
    lock.makeOffers(now, null, store.wakes);
    store.retire(ref.name, lock, now);
    return RELEASED;
  }
}

function granted(grant: Grant): Granted {
  const { first, count, takenOver, previousToken, ttlMs } = grant;
  const tokens = first === null ? null : { first, count };
  return { kind: "granted", tokens, takenOver, previousToken, ttlMs };
}

function busy(
  ask: Ask,
  lock: Lock,
  place: ReturnType<Queue["heard"]> | undefined,
  now: number,
): Busy {
  const { blockedBy, holder, freeInMs } = lock.obstacle(ask, now);
  const rank = place?.rank ?? Math.min(lock.queue?.size ?? 0, MAX_RANK);
  return {
    kind: "busy",
    queued: place !== undefined,
    blockedBy,
    holder,
    askAgainMs: lock.askAgainMs(freeInMs, rank, ask.ttlMs, now),
    keepEntryMs: place?.keepMs ?? Number.POSITIVE_INFINITY,
  };
}
