import { backoffMs } from "./backoff.ts";
import type { Timer } from "./clock.ts";
import {
  type Answer,
  type Ask,
  type Backend,
  type Busy,
  DriverError,
  type Granted,
  type Io,
} from "./driver.ts";
import type { Engine } from "./engine.ts";
import { noAnswer, type Step } from "./link.ts";
import type { ReturnOutcome } from "./returns.ts";
import type { GrantIds } from "./tenure.ts";
import type { Terms } from "./terms.ts";
import type { Waiter } from "./waiter.ts";

/** How long an acquire that was never answered goes on asking. */
const OUTAGE_MS = 5000;

/** An entry that its backend keeps for longer than this, or for ever, is not undone for longer. */
const MAX_ENTRY_MS = 60_000;

/** A store that is only busy with another writer is asked again for so long, even by one attempt. */
export const BUSY_MS = 1000;

/** What a ticket tells its queue. */
export interface TicketOwner {
  readonly name: string;
  /** `clock.mono()` when the backend last answered one of its tickets. */
  answeredAt: number;
  /** How many waiters could be served by one grant on these terms. */
  demand(ticket: Ticket): number;
  granted(ticket: Ticket, granted: Granted, sentAt: number): "taken" | "too-late";
  failed(ticket: Ticket, error: DriverError | { readonly permits: number }): void;
  /** An answer or a failure came and the wait goes on. */
  waiting(ticket: Ticket): void;
}

/**
 * A process's place at the backend for one name: one grant id, asked again until it is granted. It belongs to the
 * process's queue, not to one waiter: when its waiter leaves, another one takes it over and keeps the place.
 */
export class Ticket implements Step<Answer> {
  readonly terms: Terms;
  waiter: Waiter | undefined;
  /** Any answer has come at all. */
  #reached = false;
  /** The last attempt's failure; `undefined` after an answer. */
  failure: DriverError | undefined;
  ids: GrantIds;
  /** An ask of this grant id may still be on its way. */
  late = false;
  readonly #engine: Engine;
  readonly #owner: TicketOwner;
  #join: "yes" | "kept" = "yes";
  #seen: { readonly version: string; readonly since: number } | undefined;
  /** Failures, or unqueued busy answers, in a row. */
  #tries = 0;
  /** How long the backend keeps its entry unheard: an entry that is undone must outlast that. */
  #keepEntryMs = 0;
  /** Nobody waits on it any more. */
  #abandoned = false;
  #woken = false;
  /** Holder's clock when the attempt that is under way was sent. */
  #sentAt = 0;
  /** Runs out when it is time to ask again; `undefined` while an attempt is under way. */
  #sleep: Timer | undefined;

  constructor(engine: Engine, owner: TicketOwner, waiter: Waiter) {
    this.#engine = engine;
    this.#owner = owner;
    this.terms = waiter.terms;
    this.waiter = waiter;
    waiter.ticket = this;
    this.ids = engine.newIds();
  }

  /**
   * What a wait of `waitedMs` that ends now was spent on, if not on a holder: a backend that is out of reach, that has
   * not answered for most of it, or that another program kept busy all the time.
   */
  outage(waitedMs: number): DriverError | undefined {
    const { failure } = this;
    if (failure?.kind === "busy" && (this.#reached || waitedMs < BUSY_MS)) return undefined;
    if (failure !== undefined || this.#reached) return failure;
    const { clock, holderClock } = this.#engine;
    const silentMs = Math.min(waitedMs, clock.mono() + holderClock.sleptMs - this.#sentAt);
    if (silentMs <= waitedMs / 2) return undefined;
    return new DriverError("timeout", "unknown", `no answer within ${Math.round(silentMs)} ms`);
  }

  /** The turn may have come: ask again. */
  wake(): void {
    this.#woken = true;
    const sleep = this.#sleep;
    if (sleep === undefined) return;
    this.#sleep = undefined;
    sleep.cancel();
    // Later: whoever wakes us is in the middle of a step of its own.
    void Promise.resolve().then(() => {
      this.#goOn();
    });
  }

  /** Asks until it is granted, failed or abandoned. `now`: a reading of the holder's clock that was just taken. */
  start(now: number = this.#engine.holderClock.now()): void {
    // Before the first ask: the wake-up may be faster than the answer that says "queued".
    this.#engine.wakes.set(this.ids.grantId, this);
    this.#send(now);
  }

  #send(now: number): void {
    this.#woken = false;
    this.#sentAt = now;
    const mono = now - this.#engine.holderClock.sleptMs;
    this.#engine.link.perform(this.#timeoutMs(mono), this, mono);
  }

  // --- what the link asks and tells; one attempt at a time is under way ---

  run(backend: Backend, io: Io): PromiseLike<Answer> {
    return backend.attempt(this.#ask(), io);
  }

  answered(answer: Answer): void {
    this.#hear(answer);
  }

  failed(error: DriverError): void {
    this.#hear(error);
  }

  #hear(answer: Answer | DriverError): void {
    const pause = this.#abandoned ? null : this.#react(answer);
    if (pause === null) {
      this.#engine.wakes.delete(this.ids.grantId);
      return;
    }
    this.#owner.waiting(this);
    if (pause === 0 || this.#woken) this.#goOn();
    else
      this.#sleep = this.#engine.clock.timer(
        pause,
        () => {
          this.#sleep = undefined;
          this.#goOn();
        },
        true,
      );
  }

  #goOn(): void {
    if (!this.#abandoned) this.#send(this.#engine.holderClock.now());
  }

  /** Leaves the backend's queue; what may have been granted meanwhile is undone. Never rejects. */
  async abandon(): Promise<ReturnOutcome> {
    this.#abandoned = true;
    this.#engine.wakes.delete(this.ids.grantId);
    // An attempt may be under way right now, so the release leaves a tombstone for it.
    const inFlight = this.#sleep === undefined;
    this.wake();
    // A store without a queue keeps nothing of an ask that was answered "busy".
    if (this.#reached && !inFlight && !this.late && this.#join === "yes")
      return { kind: "released" };
    return await this.#giveBack(this.late || inFlight);
  }

  #ask(): Ask {
    const { terms } = this;
    if (this.waiter !== undefined) this.waiter.attempts += 1;
    const ask: Ask = {
      name: this.#owner.name,
      mode: terms.mode,
      permits: terms.permits,
      grantId: this.ids.grantId,
      holder: terms.holderText,
      ttlMs: terms.ttlMs,
      lockDelayMs: terms.lockDelayMs,
      tokens: this.#owner.demand(this),
      join: this.#join,
    };
    // The usual ask has neither, and a spread of nothing costs as much as the rest of it.
    if (terms.above === undefined && this.#seen === undefined) return ask;
    return {
      ...ask,
      ...(terms.above === undefined ? {} : { above: terms.above }),
      ...(this.#seen === undefined
        ? {}
        : {
            seen: {
              version: this.#seen.version,
              forMs: this.#engine.clock.mono() - this.#seen.since,
            },
          }),
    };
  }

  #timeoutMs(mono: number): number {
    const { requestTimeoutMs } = this.terms;
    if (this.#reached || this.waiter === undefined) return requestTimeoutMs;
    return Math.min(requestTimeoutMs, Math.max(50, OUTAGE_MS - this.#silentMs(mono)));
  }

  /** How long the waiter has been waiting for an answer: what it waited for others before does not count. */
  #silentMs(mono: number): number {
    const since = Math.max(this.waiter?.startedAt ?? -Infinity, this.#owner.answeredAt);
    return mono - since;
  }

  /** What to do with an answer: how long to pause, or `null` when the ticket has come to its end. */
  #react(answer: Answer | DriverError): number | null {
    if (answer instanceof Error) return this.#onFailure(answer);
    this.#reached = true;
    this.failure = undefined;
    this.#owner.answeredAt = this.#engine.clock.mono();
    switch (answer.kind) {
      case "granted": {
        if (this.#owner.granted(this, answer, this.#sentAt) === "taken") return null;
        void this.#giveBack(this.late);
        return this.#restart();
      }
      case "vanished":
        // An earlier ask of this grant id may still arrive, and would make an entry or a grant of nobody's.
        if (this.late) void this.#giveBack(true);
        return this.#restart();
      case "mismatch":
        if (this.late) void this.#giveBack(true);
        this.#owner.failed(this, answer);
        return null;
      case "busy":
        return this.#onBusy(answer);
      default:
        return this.#onFailure(noAnswer(answer));
    }
  }

  #onFailure(error: DriverError): number | null {
    this.failure = error;
    if (error.outcome === "unknown") this.late = true;
    this.#tries += 1;
    if (error.kind === "config") {
      if (this.late || this.#join === "kept") void this.#giveBack(this.late);
      this.#owner.failed(this, error);
      return null;
    }
    if (error.kind === "busy") return backoffMs(this.#engine.random, this.#tries, 4, 50);
    const silentMs = this.#silentMs(this.#engine.clock.mono());
    if (!this.#reached && silentMs >= OUTAGE_MS) {
      void this.#giveBack(this.late);
      this.#owner.failed(this, error);
      return null;
    }
    const pause = backoffMs(this.#engine.random, this.#tries, 25, 1000);
    return this.#reached ? pause : Math.min(pause, OUTAGE_MS - silentMs);
  }

  #onBusy(answer: Busy): number {
    if (this.waiter !== undefined && answer.holder !== null) this.waiter.seenHolder = answer.holder;
    const { observe } = answer;
    // An observation begins when the reply is received; its length is taken when the next ask is sent.
    if (observe !== undefined && observe.version !== this.#seen?.version)
      this.#seen = { version: observe.version, since: this.#engine.clock.mono() };
    if (answer.queued) {
      this.#keepEntryMs = Math.min(answer.keepEntryMs, MAX_ENTRY_MS);
      this.#join = "kept";
      this.#tries = 0;
      return Math.max(1, Math.min(answer.askAgainMs, answer.keepEntryMs / 3));
    }
    this.#tries += 1;
    const poll = backoffMs(this.#engine.random, this.#tries, 25, 1000);
    return Math.max(1, Math.min(poll, answer.askAgainMs));
  }

  /** Asks on under a new grant id, at the end of the backend's queue, in the same budget. */
  #restart(): number {
    this.#engine.wakes.delete(this.ids.grantId);
    this.ids = this.#engine.newIds();
    this.#engine.wakes.set(this.ids.grantId, this);
    this.late = false;
    this.#join = "yes";
    this.#tries += 1;
    return this.#tries < 3 ? 0 : backoffMs(this.#engine.random, this.#tries, 10, 500);
  }

  async #giveBack(late: boolean): Promise<ReturnOutcome> {
    const { terms } = this;
    return await this.#engine.returns.give({
      ref: {
        name: this.#owner.name,
        mode: terms.mode,
        grantId: this.ids.grantId,
        ttlMs: terms.ttlMs,
        lockDelayMs: 0,
      },
      late,
      timeoutMs: terms.requestTimeoutMs,
      budgetMs: terms.requestTimeoutMs,
      livesMs: Math.max(terms.ttlMs, this.#keepEntryMs),
      oursUntilMs: Infinity,
    });
  }
}
