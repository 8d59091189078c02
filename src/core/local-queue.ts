import type { Timer } from "./clock.ts";
import type { DriverError, Granted } from "./driver.ts";
import type { Engine } from "./engine.ts";
import {
  AcquireTimeoutError,
  BackendUnavailableError,
  ManagerClosedError,
  PermitMismatchError,
} from "./errors.ts";
import type { Holder } from "./holder.ts";
import { asAcquireError } from "./link.ts";
import type { LiveLease } from "./live-lease.ts";
import { Tenure } from "./tenure.ts";
import { sameTerms, type Terms } from "./terms.ts";
import { Ticket, type TicketOwner } from "./ticket.ts";
import { NOTE_MS, Waiter, type WaiterOwner } from "./waiter.ts";

/** One process hands a lock on inside itself at most so often, … */
const HAND_OFFS = 64;
/** … and at most so long, before the backend's queue goes first. A waiter that waits longer also queues there. */
const HAND_OFF_MS = 50;
/** Shared waiters of one process that ask at the same time. */
const SHARED_WINDOW = 64;
/** Waiters of one process at one name. */
const MAX_WAITERS = 10_000;
/** A note about who holds a name may come so much early, with others. */
const NOTE_SLACK_MS = 1000;
/** Whoever is next is held up so long by a release that is not answered. */
const RELEASE_MS = 250;
/** How long a caller whose wait is over waits for its entry to be taken back. */
const LEAVE_MS = 250;

/** The waiters of one process at one name, first in, first out, and the lease that it holds there. */
export class NameQueue implements TicketOwner, WaiterOwner {
  readonly name: string;
  answeredAt: number;
  /** The scope of the name's leases, once somebody asked: a hash that guards want at each step. */
  scope: string | undefined;
  /** Among the few idle queues that its manager keeps. */
  idling = false;
  readonly #engine: Engine;
  #head: Waiter | undefined;
  #tail: Waiter | undefined;
  #count = 0;
  /** The exclusive tenure that this process holds here, for hand-off. */
  #tenure: Tenure | undefined;
  /** Its release is under way: the head asks when it is through, or it would only be told to wait. */
  #releasing: Tenure | undefined;
  /** `clock.mono()` until when it holds the head up; 0 before there was one. */
  #releaseUntil = 0;
  #joinTimer: Timer | undefined;

  constructor(name: string, engine: Engine) {
    this.answeredAt = -Infinity;
    this.name = name;
    this.#engine = engine;
  }

  get empty(): boolean {
    return this.#head === undefined && this.#tenure === undefined && this.#releasing === undefined;
  }

  get hasWaiters(): boolean {
    return this.#head !== undefined;
  }

  /** Who holds the name, as far as this process has seen. */
  get holder(): Holder | null {
    if (this.#tenure !== undefined && !this.#tenure.over) return this.#tenure.terms.holder;
    return this.#head?.holder ?? null;
  }

  /** Waits for a lease on these terms; exactly one of the two functions is called. */
  enter(
    terms: Terms,
    signal: AbortSignal | undefined,
    resolve: (lease: LiveLease) => void,
    reject: (error: unknown) => void,
  ): void {
    const { holderClock } = this.#engine;
    const now = holderClock.now();
    if (this.#count >= MAX_WAITERS) {
      const facts = { operation: "acquire", outcome: "not-applied" } as const;
      const sentence = `${MAX_WAITERS} callers of this process wait for "${this.name}" already`;
      const error = new BackendUnavailableError(sentence, facts);
      this.#tellRefused(now - holderClock.sleptMs, error);
      reject(error);
      return;
    }
    const waiter = new Waiter(this, terms, now - holderClock.sleptMs, signal, resolve, reject);
    this.#engine.hold.begin();
    this.#append(waiter);
    if (signal !== undefined) {
      waiter.onAbort = () => {
        void this.#leave(waiter, signal.reason);
      };
      signal.addEventListener("abort", waiter.onAbort, { once: true });
    }
    if (terms.waitMs !== Infinity || this.#head !== waiter) this.#watch(waiter);
    this.#pump(now);
  }

  /** Ends every wait, as the manager closes. */
  async close(): Promise<void> {
    this.#joinTimer?.cancel();
    const leaving: Promise<unknown>[] = [];
    for (let waiter = this.#head; waiter !== undefined; waiter = this.#head)
      leaving.push(this.#leave(waiter, new ManagerClosedError(), true));
    await Promise.all(leaving);
  }

  /** Gives the lock to the next waiter of this process, if that is possible and fair; else the backend must be told. */
  handOn(lease: LiveLease): boolean {
    const { tenure } = lease;
    const next = this.#head;
    if (next === undefined || tenure !== this.#tenure) return false;
    const now = this.#engine.holderClock.now();
    if (!this.#mayHandOn(tenure, next, now)) return false;
    if (tenure.handOffs === 0) tenure.handedOffAt = now;
    tenure.handOffs += 1;
    const previous = tenure.token;
    if (tenure.token !== null) tenure.token += 1n;
    const orphan = this.#passOn(next);
    this.#serve(next, tenure, previous, now);
    // Its place at the backend went with it, so who comes next has to take one of its own.
    if (orphan !== undefined) this.#pump();
    return true;
  }

  /** The tenure's release begins. */
  releasing(tenure: Tenure): void {
    if (tenure !== this.#tenure) return;
    this.#tenure = undefined;
    this.#releasing = tenure;
    this.#releaseUntil = 0;
  }

  /** The tenure is gone: released, lost or exported. */
  ended(tenure: Tenure): void {
    if (tenure === this.#tenure) this.#tenure = undefined;
    if (tenure === this.#releasing) this.#releasing = undefined;
    this.#pump();
    this.#restIfEmpty();
  }

  // --- what a ticket tells ---

  demand(ticket: Ticket): number {
    if (ticket.terms.mode !== "exclusive" || !this.#handsOff || ticket.terms.above !== undefined)
      return 1;
    let count = 0;
    for (let w = this.#head; w !== undefined && count < HAND_OFFS; w = w.next) {
      if (!sameTerms(w.terms, ticket.terms)) break;
      count += 1;
    }
    return Math.max(1, count);
  }

  granted(ticket: Ticket, granted: Granted, sentAt: number): "taken" | "too-late" {
    const waiter = ticket.waiter;
    const { ids, late, terms } = ticket;
    const tenure = new Tenure(this, terms, { ids, granted, sentAt, late });
    const now = this.#engine.holderClock.now();
    if (waiter === undefined || now >= tenure.deadline) return "too-late";
    this.#serve(waiter, tenure, granted.previousToken, now);
    this.#pump();
    return "taken";
  }

  failed(ticket: Ticket, error: DriverError | { readonly permits: number }): void {
    const waiter = ticket.waiter;
    if (waiter === undefined) return;
    waiter.ticket = undefined;
    if (!("permits" in error)) this.#refuse(waiter, asAcquireError(error));
    else
      this.#refuse(waiter, new PermitMismatchError(this.name, waiter.terms.permits, error.permits));
  }

  waiting(ticket: Ticket): void {
    if (ticket.waiter !== undefined) this.#watch(ticket.waiter);
  }

  // --- what a waiter's timer tells ---

  waitIsOver(waiter: Waiter): void {
    void this.#leave(waiter, this.#timeoutOf(waiter));
  }

  noteHolder(waiter: Waiter, now: number): void {
    if (now >= waiter.noteAt - NOTE_SLACK_MS) {
      waiter.noteAt += NOTE_MS;
      this.#engine.events.emit("waiting", {
        ...this.#stamp(),
        waitedMs: now - waiter.startedAt,
        holder: this.#holderSeen(waiter),
      });
    }
    this.#watch(waiter);
  }

  // --- the queue itself ---

  get #handsOff(): boolean {
    return this.#engine.settings.handOff && this.#engine.declared.mints === "at-grant";
  }

  #mayHandOn(tenure: Tenure, next: Waiter, now: number): boolean {
    if (!this.#handsOff || tenure.over || tenure.keepUntil > 0) return false;
    if (tenure.ttlMs !== tenure.grantedTtlMs) return false;
    if (next.terms.mode !== "exclusive" || !sameTerms(next.terms, tenure.terms)) return false;
    if (
      tenure.token === null ? tenure.lastToken !== null : tenure.token >= (tenure.lastToken ?? 0n)
    )
      return false;
    if (
      tenure.handOffs >= HAND_OFFS ||
      (tenure.handOffs > 0 && now - tenure.handedOffAt >= HAND_OFF_MS)
    )
      return false;
    return tenure.failures === 0 && tenure.deadline - now >= tenure.ttlMs / 2;
  }

  /** Starts asking for the waiters whose turn at the backend it is. `now`: a reading of the holder's clock. */
  #pump(now?: number): void {
    const first = this.#head;
    if (first === undefined) return;
    if (this.#releasing !== undefined) {
      const mono = this.#engine.clock.mono();
      if (this.#releaseUntil === 0) this.#releaseUntil = mono + RELEASE_MS;
      if (mono < this.#releaseUntil) {
        this.#pumpIn(RELEASE_MS);
        return;
      }
    }
    const { mode, permits } = first.terms;
    const window = mode === "exclusive" ? 1 : mode === "shared" ? SHARED_WINDOW : permits;
    let asked = 0;
    for (
      let waiter: Waiter | undefined = first;
      waiter !== undefined && asked < window;
      waiter = waiter.next
    ) {
      if (waiter.terms.mode !== mode) break;
      asked += 1;
      if (waiter.ticket !== undefined) continue;
      if (this.#expectsHandOff(waiter)) {
        this.#pumpIn(HAND_OFF_MS);
        return;
      }
      new Ticket(this.#engine, this, waiter).start(now);
    }
  }

  #pumpIn(ms: number): void {
    this.#joinTimer ??= this.#engine.clock.timer(ms, () => {
      this.#joinTimer = undefined;
      this.#pump();
    });
  }

  /** A waiter that will soon be served inside this process does not queue at the backend as well. */
  #expectsHandOff(waiter: Waiter): boolean {
    return (
      this.#tenure !== undefined &&
      this.#handsOff &&
      sameTerms(waiter.terms, this.#tenure.terms) &&
      this.#engine.clock.mono() - waiter.startedAt < HAND_OFF_MS
    );
  }

  #serve(waiter: Waiter, tenure: Tenure, previousToken: bigint | null, now: number): void {
    this.#detach(waiter);
    this.#engine.hold.end();
    waiter.resolve(this.begin(tenure, previousToken, waiter.startedAt, now));
  }

  /** The lease of a tenure that was just granted, or handed on. `startedAt`: when it was asked for, by `clock.mono()`. */
  begin(
    tenure: Tenure,
    previousToken: bigint | null,
    startedAt: number,
    now: number = this.#engine.holderClock.now(),
  ): LiveLease {
    if (tenure.terms.mode === "exclusive") this.#tenure = tenure;
    const lease = this.#engine.newLease(tenure, previousToken, now);
    this.#engine.keepalive.schedule(tenure, now);
    const { events, clock } = this.#engine;
    if (events.wants("acquired"))
      events.emit("acquired", {
        ...this.#stamp(),
        mode: tenure.terms.mode,
        grantId: tenure.grantId,
        token: tenure.token,
        permits: tenure.terms.permits,
        waitedMs: clock.mono() - startedAt,
        takenOver: lease.takenOver,
        handedOff: tenure.handOffs > 0,
        deadlineMs: this.#engine.keeper.deadlineMs(lease),
      });
    return lease;
  }

  /** With nothing left to do, there is nothing left behind either. */
  #restIfEmpty(): void {
    if (!this.empty) return;
    this.#joinTimer?.cancel();
    this.#joinTimer = undefined;
    this.#engine.forget(this.name);
  }

  /** The wait of one caller ends without a lease. */
  async #leave(waiter: Waiter, reason: unknown, closing = false): Promise<void> {
    if (waiter.settled) return;
    this.#detach(waiter);
    const ticket = this.#passOn(waiter, closing);
    try {
      // While the backend is out of reach nothing is gained by waiting for it.
      const reachable = ticket?.failure === undefined;
      if (ticket !== undefined) await this.#within(reachable ? LEAVE_MS : 0, ticket.abandon());
    } finally {
      this.#tellRefused(waiter.startedAt, reason);
      waiter.reject(reason);
      this.#engine.hold.end();
      this.#pump();
      this.#restIfEmpty();
    }
  }

  /** Ends a wait whose ticket has come to its end by itself. */
  #refuse(waiter: Waiter, reason: unknown): void {
    if (waiter.settled) return;
    this.#detach(waiter);
    this.#tellRefused(waiter.startedAt, reason);
    waiter.reject(reason);
    this.#engine.hold.end();
    this.#pump();
    this.#restIfEmpty();
  }

  /**
   * The waiter's ticket goes to the next one on the same terms; returned when there is none. It never passes a waiter
   * that has none of its own yet: its place at the backend would be before theirs.
   */
  #passOn(waiter: Waiter, closing = false): Ticket | undefined {
    const { ticket } = waiter;
    waiter.ticket = undefined;
    if (ticket === undefined) return undefined;
    for (let heir = closing ? undefined : this.#head; heir !== undefined; heir = heir.next) {
      if (heir === waiter || heir.ticket !== undefined) continue;
      if (!sameTerms(heir.terms, ticket.terms)) break;
      heir.ticket = ticket;
      heir.seenHolder ??= waiter.seenHolder;
      ticket.waiter = heir;
      return undefined;
    }
    ticket.waiter = undefined;
    if (!waiter.settled) void ticket.abandon();
    return ticket;
  }

  #append(waiter: Waiter): void {
    waiter.previous = this.#tail;
    if (this.#tail === undefined) this.#head = waiter;
    else this.#tail.next = waiter;
    this.#tail = waiter;
    this.#count += 1;
  }

  #detach(waiter: Waiter): void {
    waiter.settled = true;
    if (waiter.previous === undefined) this.#head = waiter.next;
    else waiter.previous.next = waiter.next;
    if (waiter.next === undefined) this.#tail = waiter.previous;
    else waiter.next.previous = waiter.previous;
    waiter.next = waiter.previous = undefined;
    this.#count -= 1;
    this.#engine.waits.delete(waiter);
    if (waiter.onAbort !== undefined) waiter.signal?.removeEventListener("abort", waiter.onAbort);
  }

  /** Sets the timer for whatever comes next for a waiter. */
  #watch(waiter: Waiter): void {
    if (waiter.settled) return;
    if (waiter.untilMs <= waiter.noteAt) this.#engine.waits.set(waiter, waiter.untilMs);
    else this.#engine.waits.set(waiter, waiter.noteAt, NOTE_SLACK_MS);
  }

  /** The ticket that asks for this waiter, or for one before it. */
  #asking(waiter: Waiter): Ticket | undefined {
    for (let w: Waiter | undefined = waiter; w !== undefined; w = w.previous)
      if (w.ticket !== undefined) return w.ticket;
    return undefined;
  }

  #timeoutOf(waiter: Waiter): unknown {
    const waitedMs = this.#engine.clock.mono() - waiter.startedAt;
    const outage = this.#asking(waiter)?.outage(waitedMs);
    if (outage !== undefined) return asAcquireError(outage);
    const facts = { waitedMs, attempts: waiter.attempts, holder: this.#holderSeen(waiter) };
    return new AcquireTimeoutError(this.name, facts);
  }

  #holderSeen(waiter: Waiter): Holder | null {
    return waiter.holder ?? this.#asking(waiter)?.waiter?.holder ?? this.holder;
  }

  #tellRefused(startedAt: number, cause: unknown): void {
    const { events, clock } = this.#engine;
    if (events.wants("refused"))
      events.emit("refused", { ...this.#stamp(), waitedMs: clock.mono() - startedAt, cause });
  }

  #stamp(): { name: string; atMs: number; monoMs: number } {
    return { name: this.name, atMs: this.#engine.clock.wall(), monoMs: this.#engine.clock.mono() };
  }

  async #within(ms: number, work: Promise<unknown>): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#engine.clock.timer(ms, resolve, true);
      void work.then(() => {
        timer.cancel();
        resolve();
      });
    });
  }
}
