import type { Mode } from "../../core/capabilities.ts";
import type { Busy } from "../../core/driver.ts";
import type { Grant } from "./grant.ts";
import { NEXT_ASK_MS, OFFER_MS, type Queue, type Waiter } from "./queue.ts";

/** How long it is remembered that the last exclusive holder of an idle name never released. */
const ABANDONED_KEPT_MS = 7 * 24 * 3_600_000;

/** Everything about one name. All times are monotonic milliseconds. */
export class Lock {
  /** The exclusive holder, also while its lock-delay runs. */
  sole: Grant | null = null;
  /** Shared or permit holders by grant id, also those whose lock-delay runs. */
  crowd: Map<string, Grant> | null = null;
  /** No grant of the crowd is free before this; 0 without any. */
  #crowdDueAt = 0;
  /** What the holders, or those who have an offer, are; `null` without any. */
  mode: Mode | null = null;
  /** The count of the semaphore; 0 when it is none. */
  permits = 0;
  queue: Queue | null = null;
  /** The last token minted for this name since the record was made. */
  top: bigint | null = null;
  /** When the last exclusive holder vanished; -1 when it released, or when there was none. */
  abandonedAt = -1;
  /** Among the few idle names that the store keeps at hand. */
  idling = false;

  /** The grant with this id, while it is a lease. */
  grantOf(grantId: string, now: number): Grant | undefined {
    const grant = this.sole?.grantId === grantId ? this.sole : this.crowd?.get(grantId);
    return grant !== undefined && grant.expiresAt > now ? grant : undefined;
  }

  add(grant: Grant, mode: Mode): void {
    this.mode = mode;
    if (mode === "exclusive") this.sole = grant;
    else {
      this.crowd ??= new Map();
      if (this.crowd.size === 0 || grant.freeAt < this.#crowdDueAt) this.#crowdDueAt = grant.freeAt;
      this.crowd.set(grant.grantId, grant);
    }
  }

  /** Takes a grant out at once. `clean`: by its own holder, so that no successor needs to repair anything. */
  remove(grant: Grant, now: number, clean: boolean): void {
    if (this.sole === grant) {
      this.sole = null;
      this.abandonedAt = clean ? -1 : now;
    } else this.crowd?.delete(grant.grantId);
    this.#forgetMode();
  }

  /** Ends the lease now, but keeps others out for its lock-delay. */
  cutShort(grant: Grant, now: number): void {
    grant.expiresAt = now;
    this.#crowdDueAt = Math.min(this.#crowdDueAt, grant.freeAt);
  }

  /** Brings the record up to `now`: leases and lock-delays that are over, offers that nobody took. */
  settle(now: number): void {
    if (this.sole !== null && this.sole.freeAt <= now) {
      this.abandonedAt = this.sole.expiresAt;
      this.sole = null;
    }
    if (this.crowd !== null && this.#crowdDueAt <= now) {
      let due = Number.POSITIVE_INFINITY;
      for (const grant of this.crowd.values()) {
        if (grant.freeAt <= now) this.crowd.delete(grant.grantId);
        else due = Math.min(due, grant.freeAt);
      }
      this.#crowdDueAt = due;
    }
    this.queue?.lapse(now);
    this.#forgetMode();
  }

  /** Whether one more lease of this mode fits beside the holders and those who have an offer. */
  hasRoom(mode: Mode): boolean {
    if (this.mode === null) return true;
    if (this.mode !== mode || mode === "exclusive") return false;
    return mode === "shared" || this.#occupied() + this.#offers() < this.permits;
  }

  /**
   * Offers what is free to the oldest live waiters and hands those who must be woken to `wakes`, except the one that
   * is asking. Returns whether no live waiter is left without an offer: only then may somebody who does not queue enter.
   */
  makeOffers(now: number, asking: string | null, wakes: Waiter[]): boolean {
    if (this.queue === null) return true;
    for (const waiter of this.queue.values()) {
      if (waiter.offerUntil >= 0 || waiter.aliveUntil <= now) continue;
      if (!this.hasRoom(waiter.mode)) return false;
      this.queue.offer(waiter, now);
      this.mode = waiter.mode;
      if (waiter.grantId !== asking) wakes.push(waiter);
    }
    return true;
  }

  /** Removes a waiter; with an offer, the room that was kept for it is free again. */
  leave(waiter: Waiter): void {
    this.queue?.remove(waiter);
    this.#forgetMode();
  }

  /** Whether a semaphore of this count may be asked for; stores the count when nobody uses another one. */
  agreeOn(permits: number, now: number): boolean {
    if (this.permits !== permits && this.permits !== 0 && this.#isSemaphore(now)) return false;
    this.permits = permits;
    return true;
  }

  /** Why an ask does not get in, who is in its way, and when that may be over but for the waiters before it. */
  obstacle(
    ask: { readonly grantId: string; readonly mode: Mode },
    now: number,
  ): Pick<Busy, "blockedBy" | "holder"> & { freeInMs: number } {
    if (this.sole !== null) {
      const blockedBy = this.sole.expiresAt > now ? "lease" : "lock-delay";
      return { blockedBy, holder: this.sole.holder, freeInMs: this.sole.freeAt - now };
    }
    const next = this.queue?.oldestBut(ask.grantId, now)?.holder ?? null;
    const crowd = this.crowd;
    if (crowd === null || crowd.size === 0) {
      const freeInMs = (this.queue?.offersEnd(now) ?? now) - now;
      return { blockedBy: "queue", holder: next, freeInMs };
    }
    let [first, last] = [Number.POSITIVE_INFINITY, 0];
    let living: Grant | null = null;
    for (const grant of crowd.values()) {
      first = Math.min(first, grant.freeAt);
      last = Math.max(last, grant.freeAt);
      if (grant.expiresAt > now) living ??= grant;
    }
    const semaphore = ask.mode === "permits" && this.mode === "permits";
    // Those who hold it would let this one in beside them, so only the queue stands in its way.
    const compatible = semaphore ? crowd.size < this.permits : this.mode === ask.mode;
    const blockedBy = compatible ? "queue" : living === null ? "lock-delay" : "lease";
    const holder = compatible ? next : (living?.holder ?? null);
    return { blockedBy, holder, freeInMs: (semaphore ? first : last) - now };
  }

  /**
   * When an ask with `rank` live waiters before it should ask again, if no wake comes: after the offers that run, which may
   * be to the dead, since an ask is what passes a lapsed one on; else when there is room, and each of those waiters has
   * let an offer pass.
   */
  askAgainMs(freeInMs: number, rank: number, ttlMs: number, now: number): number {
    if (this.queue === null || this.queue.offers === 0)
      return Math.max(1, freeInMs + rank * Math.min(ttlMs, OFFER_MS));
    return Math.max(1, this.queue.offersEnd(now) - now + Math.max(0, rank - 1) * NEXT_ASK_MS);
  }

  /** Whether nobody holds it, waits for it, or would miss what is remembered of it. */
  isSpent(now: number): boolean {
    return (
      this.sole === null &&
      this.#occupied() === 0 &&
      (this.queue === null || this.queue.size === 0) &&
      (this.abandonedAt < 0 || this.abandonedAt + ABANDONED_KEPT_MS <= now)
    );
  }

  #isSemaphore(now: number): boolean {
    if (this.mode === "permits") return true;
    for (const waiter of this.queue?.values() ?? [])
      if (waiter.mode === "permits" && waiter.aliveUntil > now) return true;
    return false;
  }

  #occupied(): number {
    return this.sole === null ? (this.crowd?.size ?? 0) : 1;
  }

  #offers(): number {
    return this.queue?.offers ?? 0;
  }

  #forgetMode(): void {
    if (this.#occupied() + this.#offers() === 0) this.mode = null;
  }
}
