import { MAX_TOKEN } from "../../core/fencing-token.ts";
import {
  emptyLock,
  type Lease,
  type Letter,
  type Lock,
  type NameState,
  ranked,
  type Share,
  type Waiter,
} from "./redis-lock-state.ts";

/** A message that a script published. */
export interface Wake {
  readonly channel: string;
  readonly grantId: string;
}

const WEEK_MS = 7 * 86_400_000;
const HOUR_MS = 3_600_000;
/** How long a free place is kept for the one that it is offered to. */
const OFFER_MS = 3000;
/** Silence that is forgiven near the head of the line, and behind. */
const NEAR_MS = 3000;
const FAR_MS = 60_000;

/** A larger token than every one of these. */
function above(us: bigint, ...low: readonly (bigint | null)[]): bigint {
  let first = us;
  for (const each of low) if (each !== null && each >= first) first = each + 1n;
  return first;
}

/** One script at one name and one moment: what the driver's scripts have in common. */
export class Step {
  readonly name: NameState;
  readonly us: bigint;
  readonly now: number;
  readonly #wakes: Wake[];

  constructor(name: NameState, us: bigint, wakes: Wake[]) {
    this.name = name;
    this.us = us;
    this.now = Number(us / 1000n);
    this.#wakes = wakes;
  }

  /** The lock's key, made when there is none. */
  get lock(): Lock {
    this.name.lock ??= emptyLock();
    return this.name.lock;
  }

  /** The exclusive lease that has not ended, lock-delay left out. */
  get live(): Lease | null {
    const lease = this.name.lock?.lease ?? null;
    return lease !== null && lease.endsAt > this.now ? lease : null;
  }

  /** Whether no exclusive lease is in the way, lock-delay included. */
  get free(): boolean {
    const lease = this.name.lock?.lease ?? null;
    return lease === null || lease.endsAt + lease.delayMs <= this.now;
  }

  /** The counter outlives every lease that is still believed in. */
  keep(ms: number): void {
    const till = this.now + Math.max(0, 2 * ms - WEEK_MS);
    if ((this.lock.keptUntil ?? 0) >= till) return;
    this.lock.keptUntil = till + HOUR_MS;
    this.lock.endsAt = this.lock.keptUntil + WEEK_MS;
  }

  /** First and last of new tokens; `null` when there are none left. */
  mint(count: number, beyond: string): readonly [first: bigint, last: bigint] | null {
    const { last = null, raised = null } = this.name.lock ?? {};
    const first = above(this.us, last, raised, beyond === "" ? null : BigInt(beyond));
    const top = first + BigInt(count - 1);
    return top > MAX_TOKEN ? null : [first, top];
  }

  /** What is written down as the token before. */
  get before(): string {
    return String(this.name.lock?.last ?? "");
  }

  longer(endsAt: number, ttlMs: number): number {
    return Math.max(endsAt, this.now + ttlMs);
  }

  /** The quick step, which sees one key only, must leave the name alone. */
  mark(): void {
    if (this.lock.aside) return;
    this.lock.aside = true;
    this.keep(0);
  }

  #stay(key: { endsAt: number | null }, ms: number): void {
    if (key.endsAt === null || key.endsAt - this.now < ms) key.endsAt = this.now + ms;
  }

  waiter(id: string): Waiter | null {
    const entry = this.name.records.get(id);
    return entry?.kind === "waiter" ? entry : null;
  }

  share(id: string): Share | null {
    const entry = this.name.records.get(id);
    return entry?.kind === "share" ? entry : null;
  }

  liveShare(id: string): Share | null {
    const share = this.share(id);
    return share !== null && share.endsAt > this.now ? share : null;
  }

  #write(waiter: Waiter): void {
    this.mark();
    this.name.records.set(waiter.id, waiter);
  }

  enter(share: Share): void {
    const { occupants, records } = this.name;
    this.mark();
    const over = share.endsAt + share.delayMs;
    records.set(share.id, share);
    occupants.set(share.id, over);
    this.#stay(records, over - this.now + 60_000);
    this.#stay(occupants, over - this.now + 60_000);
  }

  /** Ends what is over: the lease with its lock-delay, shares, and offers that nobody took. */
  settle(): void {
    const { lock, occupants, queue, records } = this.name;
    if (lock?.lease && this.free) {
      lock.lease = null;
      lock.abandoned = true;
      this.mark();
    }
    for (const [id, until] of ranked(occupants)) {
      if (until > this.now) break;
      occupants.delete(id);
      const waiter = this.waiter(id);
      if (waiter !== null) {
        this.#write({ ...waiter, aliveUntil: this.now, offerUntil: 0 });
        queue.delete(id);
      } else if (this.share(id) !== null) records.delete(id);
    }
  }

  room(mode: Letter): boolean {
    const { lock, occupants } = this.name;
    if (lock?.lease) return false;
    if (occupants.size === 0) return true;
    if (mode === "e" || lock?.mode !== mode) return false;
    return mode === "s" || occupants.size < (lock.permits ?? 0);
  }

  /** Offers what is free to the oldest who live. Whether each of them has an offer. */
  offer(asking: string | null): boolean {
    const { queue, occupants } = this.name;
    for (const [id] of ranked(queue)) {
      const waiter = this.waiter(id);
      if (waiter !== null && waiter.offerUntil > this.now) continue;
      if (waiter === null || waiter.aliveUntil <= this.now) {
        queue.delete(id);
        continue;
      }
      if (!this.room(waiter.mode)) return false;
      const offerUntil = this.now + Math.min(waiter.ttlMs, OFFER_MS);
      this.#write({ ...waiter, offerUntil });
      occupants.set(id, offerUntil);
      this.#stay(occupants, 60_000);
      this.lock.mode = waiter.mode;
      if (id !== asking) this.#wakes.push({ channel: waiter.channel, grantId: id });
    }
    return true;
  }

  leave(id: string): void {
    this.name.queue.delete(id);
    this.name.occupants.delete(id);
    this.name.records.delete(id);
  }

  /** A waiter lives: how many do before it, and how long its silence is forgiven. */
  hear(waiter: Waiter): { readonly rank: number; readonly keepMs: number } {
    const { queue, records } = this.name;
    const before = ranked(queue).filter(([, arrival]) => arrival < waiter.arrival);
    const rank = before
      .slice(0, 100)
      .filter(([id]) => (this.waiter(id)?.aliveUntil ?? 0) > this.now).length;
    const keepMs = rank < 3 ? NEAR_MS : FAR_MS;
    this.#write({ ...waiter, aliveUntil: this.now + keepMs });
    queue.set(waiter.id, waiter.arrival);
    this.#stay(records, 125_000);
    this.#stay(queue, 125_000);
    return { rank, keepMs };
  }

  sweep(): void {
    const { records, occupants, queue } = this.name;
    if (records.size < (this.name.lock?.sweepAt ?? 64)) return;
    for (const [id, entry] of [...records]) {
      const dead =
        entry.kind === "waiter"
          ? entry.aliveUntil + 60_000 <= this.now && !occupants.has(id)
          : entry.kind === "tomb" && entry.until <= this.now;
      if (!dead) continue;
      if (entry.kind === "waiter") queue.delete(id);
      records.delete(id);
    }
    this.lock.sweepAt = 2 * records.size + 64;
    this.keep(0);
  }

  /** Must not be granted for so long. */
  bury(id: string, ms: number, revoked: boolean): void {
    this.mark();
    const entry = this.name.records.get(id);
    const old = entry?.kind === "tomb" ? entry : { until: 0, revoked: false };
    this.name.records.set(id, {
      kind: "tomb",
      until: Math.max(old.until, this.now + ms),
      revoked: revoked || old.revoked,
    });
    this.#stay(this.name.records, ms + 1000);
    this.sweep();
  }

  /** Why this id has no lease: 0 expired, 1 taken, 2 revoked. */
  why(id: string): number {
    const entry = this.name.records.get(id);
    if (entry?.kind === "tomb" && entry.revoked) return 2;
    return this.live !== null && this.live.id !== id ? 1 : 0;
  }
}
