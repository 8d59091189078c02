import { DriverError, type GoneReason } from "../../core/driver.ts";
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import { Lock } from "./lock.ts";
import type { Waiter } from "./queue.ts";

/** A revoked grant is told so for at least this long, and a late ask of it refused. */
const REVOKED_KEPT_MS = 60_000;
/** How many idle names stay at hand: taking and giving back one name again and again then costs no Map operations. */
const IDLE_KEPT = 64;
/** Smaller stores are not swept. */
const SWEEP_FROM = 2 * IDLE_KEPT;

/** A grant id that must not be granted (again). */
interface Tombstone {
  readonly until: number;
  readonly revoked: boolean;
}

/** The largest token of every name that was dropped, in all namespaces of one driver. */
export interface TokenFloor {
  value: bigint;
}

/** The names of one namespace. Names that nobody needs are dropped, so what it keeps is bounded by what is in use. */
export class Store {
  readonly locks: Map<string, Lock> = new Map<string, Lock>();
  readonly #tombstones = new Map<string, Tombstone>();
  readonly #floor: TokenFloor;
  /** Where the sweep stands. One that rests keeps every table that the Map has outgrown since, so it is dropped then. */
  #lockHand: MapIterator<[string, Lock]> | undefined;
  #tombstoneHand: MapIterator<[string, Tombstone]> = this.#tombstones.entries();
  readonly #idle: { readonly name: string; readonly lock: Lock }[] = [];
  #idleHand = 0;
  /** Waiters to be woken once the step is over. */
  wakes: Waiter[] = [];

  constructor(floor: TokenFloor) {
    this.#floor = floor;
  }

  add(name: string, now: number): Lock {
    this.#sweep(now);
    const lock = new Lock();
    this.locks.set(name, lock);
    return lock;
  }

  /** Lets go of the name when nobody needs it: the last few idle names stay, each one pushes the oldest of them out. */
  retire(name: string, lock: Lock, now: number): void {
    if (lock.idling || !lock.isSpent(now)) return;
    lock.idling = true;
    const oldest = this.#idle[this.#idleHand];
    this.#idle[this.#idleHand] = { name, lock };
    this.#idleHand = (this.#idleHand + 1) % IDLE_KEPT;
    if (oldest === undefined) return;
    oldest.lock.idling = false;
    this.#dropIfSpent(oldest.name, oldest.lock, now);
  }

  /** The name's tokens go on rising when it comes back, since the floor remembers the last one. */
  #dropIfSpent(name: string, lock: Lock, now: number): void {
    if (lock.idling || !lock.isSpent(now)) return;
    this.raise(lock.top);
    this.locks.delete(name);
  }

  /**
   * The first of `count` new tokens, above all that this name, or one that was dropped, ever had, and above `above`.
   * `wall`: Unix milliseconds, from which they start.
   */
  mint(lock: Lock, count: number, above: bigint | undefined, wall: number): bigint {
    let first = BigInt(Math.trunc(wall * 1000));
    if (this.#floor.value >= first) first = this.#floor.value + 1n;
    if (lock.top !== null && lock.top >= first) first = lock.top + 1n;
    if (above !== undefined && above >= first) first = above + 1n;
    const last = count === 1 ? first : first + BigInt(count - 1);
    if (last > MAX_TOKEN)
      throw new DriverError(
        "config",
        "not-applied",
        "The fencing tokens of this store are used up.",
      );
    lock.top = last;
    return first;
  }

  /** Every later token is above this. */
  raise(to: bigint | null): void {
    if (to === null || to <= this.#floor.value) return;
    this.#floor.value = to < MAX_TOKEN ? to : MAX_TOKEN;
  }

  refuse(grantId: string, now: number, forMs: number): void {
    const before = this.#tombstones.get(grantId);
    const until = Math.max(before?.until ?? 0, now + forMs);
    this.#bury(grantId, { until, revoked: before?.revoked === true }, now);
  }

  refuseRevoked(grantId: string, now: number, ttlMs: number): void {
    this.#bury(grantId, { until: now + Math.max(ttlMs, REVOKED_KEPT_MS), revoked: true }, now);
  }

  refuses(grantId: string, now: number): boolean {
    if (this.#tombstones.size === 0) return false;
    return (this.#tombstones.get(grantId)?.until ?? now) > now;
  }

  /** Why this grant id has no lease, as far as it is known. */
  whyGone(grantId: string, lock: Lock | undefined, now: number): GoneReason {
    if (this.#tombstones.get(grantId)?.revoked === true) return "revoked";
    const sole = lock?.sole;
    const another = sole !== undefined && sole !== null && sole.grantId !== grantId;
    return another && sole.expiresAt > now ? "taken" : "expired";
  }

  #bury(grantId: string, tombstone: Tombstone, now: number): void {
    this.#tombstones.set(grantId, tombstone);
    // Each new one looks at two old ones, so that the number stays near that of those which still count.
    for (let i = 0; i < 2; i += 1) {
      const next = this.#tombstoneHand.next();
      if (next.done === true) {
        this.#tombstoneHand = this.#tombstones.entries();
        return;
      }
      const [old, { until }] = next.value;
      if (until <= now) this.#tombstones.delete(old);
    }
  }

  /**
   * Each new name looks at two old ones: names whose holders vanished may never be touched again, and without this
   * they would stay for ever.
   */
  #sweep(now: number): void {
    if (this.locks.size < SWEEP_FROM) {
      this.#lockHand = undefined;
      return;
    }
    this.#lockHand ??= this.locks.entries();
    for (let i = 0; i < 2; i += 1) {
      const next = this.#lockHand.next();
      if (next.done === true) {
        this.#lockHand = undefined;
        return;
      }
      const [name, lock] = next.value;
      lock.settle(now);
      lock.queue?.forget(now);
      this.#dropIfSpent(name, lock, now);
    }
  }
}
