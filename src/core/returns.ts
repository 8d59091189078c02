import { backoffMs } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import type { GoneReason, GrantRef, Release } from "./driver.ts";
import { asDriverError, type Link } from "./link.ts";
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
  /** How long the caller waits for an outcome. */
  readonly budgetMs: number;
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

  /** Never rejects. */
  async give(order: ReturnOrder): Promise<ReturnOutcome> {
    this.#underWay += 1;
    try {
      return await this.#give(order);
    } finally {
      this.#done();
    }
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

  async #give(order: ReturnOrder): Promise<ReturnOutcome> {
    const progress = order.progress ?? { late: order.late, maybeFreed: false, tries: 0 };
    for (const startedAt = this.#clock.mono(); ; ) {
      const outcome = await this.#try(order, progress);
      if (outcome.kind !== "unknown" || this.#stopped) return outcome;
      const pause = backoffMs(this.#random, progress.tries, 10, 500);
      if (this.#clock.mono() - startedAt + pause >= order.budgetMs) {
        void this.#goOn(order, progress);
        return outcome;
      }
      await this.#pause(pause, true);
    }
  }

  async #try(order: ReturnOrder, progress: ReturnProgress): Promise<ReturnOutcome> {
    progress.tries += 1;
    const sentAt = this.#clock.mono();
    const ref: GrantRef = progress.late
      ? { ...order.ref, refuseLateMs: Math.max(order.ref.ttlMs, TOMBSTONE_MS) }
      : order.ref;
    let release: Release;
    try {
      const releases = await this.#link.call(order.timeoutMs, async (backend, io) =>
        backend.release([ref], io),
      );
      release = releases[0] ?? { kind: "failed", error: new Error("no answer for this release") };
    } catch (error) {
      release = { kind: "failed", error };
    }
    if (release.kind === "released") return release;
    // Gone on a retry: the first try freed it, provided that it was sent while the record was surely ours.
    if (release.kind === "gone") return progress.maybeFreed ? { kind: "released" } : release;
    if (asDriverError(release.error).outcome === "unknown") {
      progress.late = true;
      if (sentAt < order.oursUntilMs) progress.maybeFreed = true;
    }
    return { kind: "unknown", error: release.error };
  }

  async #goOn(order: ReturnOrder, progress: ReturnProgress): Promise<void> {
    this.#underWay += 1;
    // After its ttl the backend forgets the record or the entry without us.
    const until = this.#clock.mono() + order.ref.ttlMs + order.ref.lockDelayMs;
    while (this.#clock.mono() < until) {
      await this.#pause(backoffMs(this.#random, progress.tries, 50, 2000), false);
      if (this.#stopped || (await this.#try(order, progress)).kind !== "unknown") break;
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
