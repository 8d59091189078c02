import type { Mode } from "../../core/capabilities.ts";

/** The longest that a free lock is kept for one waiter that was told of it. */
export const OFFER_MS = 3000;
/** Silence that makes a waiter dead: short near the head, where it would hold up the others. */
const KEEP_NEAR_MS = 3000;
const KEEP_FAR_MS = 60_000;
const NEAR = 3;
/** How long a dead waiter's place is remembered, so that one which was merely stopped gets it back. */
const REMEMBER_MS = 60_000;
const MAX_WAITERS = 10_000;
/** Ranks are counted no further: it would hardly change when whoever stands behind asks again. */
export const MAX_RANK = 100;
/** Once an offer has ended, each waiter asks so long after the one before it: the nearest that lives is the first. */
export const NEXT_ASK_MS = 50;

/** Somebody who can be told that the turn of one of its entries has come. */
export interface Wakeable {
  wake(grantId: string): void;
}

/** One entry of a queue. */
export class Waiter {
  readonly grantId: string;
  readonly holder: string;
  readonly mode: Mode;
  readonly ttlMs: number;
  readonly owner: Wakeable;
  /** Monotonic: dead from here on, unless heard from. */
  aliveUntil = 0;
  /** Monotonic end of the offer that was made to it; -1 when none was. */
  offerUntil = -1;

  constructor(
    ask: {
      readonly grantId: string;
      readonly holder: string;
      readonly mode: Mode;
      readonly ttlMs: number;
    },
    owner: Wakeable,
  ) {
    this.grantId = ask.grantId;
    this.holder = ask.holder;
    this.mode = ask.mode;
    this.ttlMs = ask.ttlMs;
    this.owner = owner;
  }
}

/** The waiters of one name. A Map keeps the order of arrival, and whoever is silent for a while keeps its place in it. */
export class Queue {
  readonly #waiters = new Map<string, Waiter>();
  /** How many waiters have an offer that they neither took nor missed. */
  offers = 0;

  get size(): number {
    return this.#waiters.size;
  }

  get(grantId: string): Waiter | undefined {
    return this.#waiters.get(grantId);
  }

  values(): MapIterator<Waiter> {
    return this.#waiters.values();
  }

  /** Adds at the end; `false` when the queue is full of waiters that live. */
  add(waiter: Waiter, now: number): boolean {
    if (this.#waiters.size >= MAX_WAITERS) this.#removeIf((other) => other.aliveUntil <= now);
    if (this.#waiters.size >= MAX_WAITERS) return false;
    this.#waiters.set(waiter.grantId, waiter);
    return true;
  }

  remove(waiter: Waiter): void {
    if (waiter.offerUntil >= 0) this.offers -= 1;
    this.#waiters.delete(waiter.grantId);
  }

  /** The waiter lives. Returns how many live ones stand before it, and how long silence is forgiven from here. */
  heard(waiter: Waiter, now: number): { readonly rank: number; readonly keepMs: number } {
    let rank = 0;
    for (const other of this.#waiters.values()) {
      if (other === waiter || rank === MAX_RANK) break;
      if (other.aliveUntil > now) rank += 1;
    }
    const keepMs = rank < NEAR ? KEEP_NEAR_MS : KEEP_FAR_MS;
    waiter.aliveUntil = now + keepMs;
    return { rank, keepMs };
  }

  offer(waiter: Waiter, now: number): void {
    waiter.offerUntil = now + Math.min(waiter.ttlMs, OFFER_MS);
    this.offers += 1;
  }

  /** Offers that nobody took are over, and those waiters count as dead until they are heard from again. */
  lapse(now: number): void {
    if (this.offers === 0) return;
    let left = this.offers;
    for (const waiter of this.#waiters.values()) {
      if (waiter.offerUntil < 0) continue;
      if (waiter.offerUntil <= now) {
        waiter.offerUntil = -1;
        waiter.aliveUntil = now;
        this.offers -= 1;
      }
      left -= 1;
      if (left === 0) break;
    }
  }

  /** When the last of the running offers ends; `now` when there is none. */
  offersEnd(now: number): number {
    let end = now;
    if (this.offers > 0)
      for (const waiter of this.#waiters.values()) end = Math.max(end, waiter.offerUntil);
    return end;
  }

  /** Forgets the places of waiters that have been dead for long. */
  forget(now: number): void {
    this.#removeIf((waiter) => waiter.aliveUntil + REMEMBER_MS <= now);
  }

  /** The oldest live waiter but this one. */
  oldestBut(grantId: string, now: number): Waiter | undefined {
    for (const waiter of this.#waiters.values())
      if (waiter.aliveUntil > now && waiter.grantId !== grantId) return waiter;
    return undefined;
  }

  #removeIf(hopeless: (waiter: Waiter) => boolean): void {
    for (const waiter of this.#waiters.values()) if (hopeless(waiter)) this.remove(waiter);
  }
}
