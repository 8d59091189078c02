import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, span, who } from "./words.ts";
import type { World } from "./world.ts";

interface Progress {
  /** Calls of acquire without an answer, by number. */
  readonly waiting: Map<number, Ev>;
  /** The last thing that moved the lock, and whether it was let go cleanly then. */
  moved: Ev | undefined;
  clean: boolean;
  ttl: number;
  lockDelay: number;
  told: boolean;
}

/**
 * P8. Once faults are over, a live waiter gets a lock that nobody keeps alive: within `progressNs` when it was let go
 * cleanly, else within ttl, lock-delay and `progressNs`. A holder that goes on renewing is P13's matter.
 */
class Freedom extends Judge {
  readonly #bound: number = this.options.progressNs ?? 5e9;
  readonly #locks = new Map<string, Progress>();
  readonly #lockOf = new Map<number, Progress>();

  step(event: Ev, world: World): void {
    const { f, lock } = event;
    if (lock === undefined) return;
    if (f !== "acquire" && f !== "renew" && f !== "release" && !f.startsWith("srv.")) return;
    const progress = this.#at(lock);
    if (event.ttl !== undefined) progress.ttl = Math.max(progress.ttl, event.ttl);
    if (event.lockDelay !== undefined)
      progress.lockDelay = Math.max(progress.lockDelay, event.lockDelay);
    if (f.startsWith("srv.")) return;
    this.#judge(lock, progress, world);
    if (f === "acquire") this.#waits(event, progress);
    else if (f === "renew" && event.k === "ok") this.#moves(progress, event, false);
    else if (f === "release" && event.k === "ok")
      this.#moves(progress, event, world.open(lock).length === 0);
    // What was asked for and never answered may be held without anybody knowing, for a ttl.
    if (event.k === "info") progress.clean = false;
  }

  protected override end(world: World): void {
    for (const [lock, progress] of this.#locks) this.#judge(lock, progress, world);
  }

  #waits(event: Ev, progress: Progress): void {
    const { k, op } = event;
    if (k === "invoke") {
      if (op === undefined) return;
      progress.waiting.set(op, event);
      this.#lockOf.set(op, progress);
      return;
    }
    if (op !== undefined) this.#lockOf.get(op)?.waiting.delete(op);
    if (op !== undefined) this.#lockOf.delete(op);
    if (k !== "ok") return;
    this.judged += 1;
    this.#moves(progress, event, false);
  }

  #moves(progress: Progress, event: Ev, clean: boolean): void {
    progress.moved = event;
    progress.clean = clean;
    progress.told = false;
  }

  #judge(lock: string, progress: Progress, world: World): void {
    const { healedAt, now } = world;
    if (healedAt === undefined || progress.told) return;
    const waiter = this.#alive(progress, world);
    if (waiter === undefined) return;
    const { moved, clean } = progress;
    const since = Math.max(healedAt, waiter.t, moved?.t ?? 0);
    const within = this.#bound + (clean ? 0 : progress.ttl + progress.lockDelay);
    if (now - since <= within + this.epsilon) return;
    // A long deadline is the holder's right: the lock is not free yet.
    const holder = world.open(lock).find((lease) => world.believes(lease, now));
    if (holder !== undefined) return;
    progress.told = true;
    const last =
      moved === undefined ? "nobody ever held it" : `last moved by ${who(moved)} (${moved.f})`;
    this.violated(
      `${who(waiter)} waits for ${name(lock)} since ${at(waiter.t, world.origin)} and did not get it by ${at(now, world.origin)}, though nobody holds it (${last}; bound ${span(within)}).`,
      [moved, waiter],
    );
  }

  #alive(progress: Progress, world: World): Ev | undefined {
    for (const event of progress.waiting.values())
      if (!world.isDead(event.p) && !world.isPaused(event.p)) return event;
    return undefined;
  }

  #at(lock: string): Progress {
    let progress = this.#locks.get(lock);
    if (progress === undefined) {
      progress = {
        waiting: new Map(),
        moved: undefined,
        clean: true,
        ttl: 0,
        lockDelay: 0,
        told: false,
      };
      this.#locks.set(lock, progress);
    }
    return progress;
  }
}

export const freedom: Checker = checker(
  {
    id: "P8",
    title: "a lock that nobody keeps is granted to whoever waits",
    cost: "O(1) per event",
    kind: "liveness",
    needsEveryEvent: true,
  },
  (...facts) => new Freedom(...facts),
);
