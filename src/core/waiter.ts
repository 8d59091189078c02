import type { WaitingPlace } from "./engine.ts";
import { decodeHolder, type Holder } from "./holder.ts";
import type { LiveLease } from "./live-lease.ts";
import type { Terms } from "./terms.ts";
import type { Ticket } from "./ticket.ts";

/** After so long, and every so long from then on, an event says who holds the name. */
export const NOTE_MS = 30_000;

/** What its queue does for a waiter. */
export interface WaiterOwner {
  waitIsOver(waiter: Waiter): void;
  noteHolder(waiter: Waiter, now: number): void;
}

/** One blocked acquire: a place in its process's queue for a name. Times are `clock.mono()`, the observer's clock. */
export class Waiter implements WaitingPlace {
  dueAt = -1;
  readonly terms: Terms;
  readonly startedAt: number;
  readonly signal: AbortSignal | undefined;
  next: Waiter | undefined;
  previous: Waiter | undefined;
  /** What asks the backend for it; waiters behind the head have none. */
  ticket: Ticket | undefined;
  settled = false;
  attempts = 0;
  /** When it is next told who holds the name. */
  noteAt: number;
  /** Who was seen to have the lease, as the store keeps it: read only when somebody asks. */
  seenHolder: string | null = null;
  onAbort: (() => void) | undefined;
  readonly #owner: WaiterOwner;
  readonly #resolve: (lease: LiveLease) => void;
  readonly #reject: (error: unknown) => void;

  constructor(
    owner: WaiterOwner,
    terms: Terms,
    startedAt: number,
    signal: AbortSignal | undefined,
    resolve: (lease: LiveLease) => void,
    reject: (error: unknown) => void,
  ) {
    this.#owner = owner;
    this.terms = terms;
    this.startedAt = startedAt;
    this.signal = signal;
    this.noteAt = startedAt + NOTE_MS;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get holder(): Holder | null {
    return this.seenHolder === null ? null : decodeHolder(this.seenHolder);
  }

  get untilMs(): number {
    return this.startedAt + this.terms.waitMs;
  }

  onDue(now: number): void {
    if (this.settled) return;
    if (now >= this.untilMs) this.#owner.waitIsOver(this);
    else this.#owner.noteHolder(this, now);
  }

  resolve(lease: LiveLease): void {
    this.#resolve(lease);
  }

  reject(error: unknown): void {
    this.#reject(error);
  }
}
