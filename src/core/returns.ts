import { backoffMs } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import type { Backend, DriverError, GoneReason, GrantRef, Io, Release } from "./driver.ts";
import { asDriverError, type Link, noAnswer, type Step } from "./link.ts";
import type { Random } from "./random.ts";

/** How long a backend refuses late packets of a grant id that was given back: at least this. */
const TOMBSTONE_MS = 60_000;

/** What giving back came to. */
export type ReturnOutcome =
  | { readonly kind: "released" }
  | { readonly kind: "gone"; readonly reason: GoneReason }
  /** Not known yet; it is tried again in the background until the backend forgets it by itself. */
  | { readonly kind: "unknown"; readonly error: unknown };

/** What the tries to give something back have come to so far. */
export interface ReturnProgress {
  /** A request of this grant id may still be on its way. */
  late: boolean;
  /** A try of unknown outcome was sent while the record was surely ours. */
  maybeFreed: boolean;
  tries: number;
}

/** How one grant or entry is given back. */
export interface ReturnOrder {
  readonly ref: GrantRef;
  /** An ask of this id may still be on its way. */
  readonly late: boolean;
  readonly timeoutMs: number;
  /** How long the caller waits for an outcome: until then a try that stayed unknown is followed by another. */
  readonly budgetMs: number;
  /** After so long the backend forgets it by itself. */
  readonly livesMs: number;
  /** `clock.mono()` until when the record was surely ours: a record that a retry finds gone was freed by the first try. */
  readonly oursUntilMs: number;
  /** What earlier orders for the same record came to. */
  readonly progress?: ReturnProgress;
}

/**
 * Gives leases and queue entries back, and goes on in the background where an outcome stayed unknown. One conditional
 * step at the backend; with a tombstone as soon as any request of this grant id may still be under way.
 */
export class Returns {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #random: Random;
  /** What is being given back, by a caller who waits for it or in the background. */
  #underWay = 0;
  readonly #pauses = new Set<() => void>();
  #whenIdle: (() => void) | undefined;
  #stopped = false;

  constructor(link: Link, clock: Clock, random: Random) {
    this.#link = link;
    this.#clock = clock;
    this.#random = random;
  }

  /** As `begin`. Never rejects. */
  async give(order: ReturnOrder): Promise<ReturnOutcome> {
    return await new Promise((resolve) => {
      this.begin(order, resolve);
    });
  }

  /** Gives one grant or entry back; `done` hears what it came to, never before this returns. */
  begin(order: ReturnOrder, done: (outcome: ReturnOutcome) => void): void {
    this.#underWay += 1;
    const startedAt = this.#clock.mono();
    const giving = new Return(order, (outcome) => {
      if (outcome.kind === "unknown" && !this.#stopped) {
        const pause = backoffMs(this.#random, giving.progress.tries, 10, 500);
        if (this.#clock.mono() - startedAt + pause < order.budgetMs) {
          void this.#pause(pause, true).then(() => {
            this.#send(giving, this.#clock.mono());
          });
          return;
        }
        void this.#goOn(giving);
      }
      this.#done();
      done(outcome);
    });
    this.#send(giving, startedAt);
  }

  /** Waits for what is still open, up to `ms`, and gives up the rest: the backend forgets that by itself. */
  async settle(ms: number): Promise<void> {
    if (this.#underWay > 0)
      await new Promise<void>((resolve) => {
        const timer = this.#clock.timer(ms, resolve, true);
        this.#whenIdle = () => {
          timer.cancel();
          resolve();
        };
      });
    this.#stopped = true;
    for (const end of this.#pauses) end();
  }

  #done(): void {
    this.#underWay -= 1;
    if (this.#underWay === 0) this.#whenIdle?.();
  }

  #send(giving: Return, mono: number): void {
    giving.sent(mono);
    this.#link.perform(giving.order.timeoutMs, giving, mono);
  }

  async #goOn(giving: Return): Promise<void> {
    this.#underWay += 1;
    const until = this.#clock.mono() + giving.order.livesMs;
    while (this.#clock.mono() < until) {
      await this.#pause(backoffMs(this.#random, giving.progress.tries, 50, 2000), false);
      if (this.#stopped) break;
      const outcome = await new Promise<ReturnOutcome>((resolve) => {
        giving.hear = resolve;
        this.#send(giving, this.#clock.mono());
      });
      if (outcome.kind !== "unknown") break;
    }
    this.#done();
  }

  async #pause(ms: number, ref: boolean): Promise<void> {
    if (this.#stopped) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        timer.cancel();
        this.#pauses.delete(end);
        resolve();
      };
      const timer = this.#clock.timer(ms, end, ref);
      this.#pauses.add(end);
    });
  }
}

/** One grant or entry on its way back; the same one is sent again while the outcome is unknown. */
class Return implements Step<readonly Release[]> {
  readonly order: ReturnOrder;
  readonly progress: ReturnProgress;
  /** Called with what each try came to. */
  hear: (outcome: ReturnOutcome) => void;
  /** `clock.mono()` of the last try. */
  #sentAt = 0;

  constructor(order: ReturnOrder, hear: (outcome: ReturnOutcome) => void) {
    this.order = order;
    this.progress = order.progress ?? { late: order.late, maybeFreed: false, tries: 0 };
    this.hear = hear;
  }

  /** A try leaves now. */
  sent(mono: number): void {
    this.#sentAt = mono;
    this.progress.tries += 1;
  }

  run(backend: Backend, io: Io): PromiseLike<readonly Release[]> {
    const { ref } = this.order;
    if (!this.progress.late) return backend.release([ref], io);
    return backend.release([{ ...ref, refuseLateMs: Math.max(ref.ttlMs, TOMBSTONE_MS) }], io);
  }

  answered(releases: readonly Release[]): void {
    const release = releases[0];
    switch (release?.kind) {
      case "released":
        this.hear(release);
        break;
      case "gone":
        // On a retry: the first try freed it, provided that it was sent while the record was surely ours.
        this.hear(this.progress.maybeFreed ? { kind: "released" } : release);
        break;
      case "failed":
        this.failed(asDriverError(release.error));
        break;
      case undefined:
      default:
        this.failed(noAnswer(release));
    }
  }

  failed(error: DriverError): void {
    if (error.outcome === "unknown") {
      this.progress.late = true;
      if (this.#sentAt < this.order.oursUntilMs) this.progress.maybeFreed = true;
    }
    this.hear({ kind: "unknown", error });
  }
}
