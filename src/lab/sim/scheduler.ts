import { jobs } from "./pump.ts";

/**
 * Microtask turns between two events, where they cannot be run until none is left. Longer chains of promises would see the next event before they end: a test runs
 * the same seeds with eight times as many turns and must see the same history.
 */
const DRAIN_TURNS = 32;

/** Awaiting it costs one turn. */
const TURN = Promise.resolve();
/** More events at one instant than any honest world has. */
const MAX_AT_ONCE = 20_000;

/** Something that happens at a time; cancelled ones are dropped when their time comes. */
export class Happening {
  readonly at: number;
  readonly order: number;
  fn: (() => void) | null;
  /** Whether promises may have been settled by it, so that they must run before the next event. */
  readonly settles: boolean;

  constructor(at: number, order: number, fn: () => void, settles: boolean) {
    this.at = at;
    this.order = order;
    this.fn = fn;
    this.settles = settles;
  }

  cancel(): void {
    this.fn = null;
  }
}

function before(a: Happening, b: Happening): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/**
 * Virtual time in milliseconds from 0, and what happens in it: by time, equal times by the order of planning. Between
 * two events promises run; nothing in here ever waits for the real clock.
 */
export class Scheduler {
  now = 0;
  /** Events so far. */
  count = 0;
  readonly #heap: Happening[] = [];
  readonly #turns: number;
  #planned = 0;
  #atOnce = 0;

  constructor(turns: number = DRAIN_TURNS) {
    this.#turns = turns;
  }

  /** Plans `fn` for `at`, or for now when that is past. `settles: false`: it resolves no promise. */
  at(at: number, fn: () => void, settles = true): Happening {
    const happening = new Happening(Math.max(at, this.now), this.#planned, fn, settles);
    this.#planned += 1;
    this.#push(happening);
    return happening;
  }

  after(ms: number, fn: () => void, settles = true): Happening {
    return this.at(this.now + ms, fn, settles);
  }

  /** Lets time pass up to `until`, or until `enough` says so after an event. Rejects with what an event throws. */
  async run(until: number, enough: () => boolean = () => false): Promise<void> {
    const { drain } = jobs;
    if (drain !== null && this.#turns === DRAIN_TURNS) {
      await new Promise<void>((resolve, reject) => {
        jobs.add(() => {
          try {
            drain();
            this.#runHere(until, enough, drain);
            resolve();
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)));
          }
        });
      });
      return;
    }
    for (let turn = 0; turn < this.#turns; turn += 1) await TURN;
    for (let next = this.#next(until); next !== null; next = this.#next(until)) {
      next.fn?.();
      if (next.settles) for (let turn = 0; turn < this.#turns; turn += 1) await TURN;
      if (enough()) return;
    }
  }

  /** The same without a single promise of its own. */
  #runHere(until: number, enough: () => boolean, drain: () => void): void {
    for (let next = this.#next(until); next !== null; next = this.#next(until)) {
      next.fn?.();
      if (next.settles) drain();
      if (enough()) return;
    }
  }

  /** Takes the next event, and lets time pass up to it; `null` when there is none before `until`. */
  #next(until: number): Happening | null {
    for (;;) {
      const next = this.#heap[0];
      if (next === undefined || next.at > until) {
        if (Number.isFinite(until)) this.now = Math.max(this.now, until);
        return null;
      }
      this.#pop();
      if (next.fn === null) continue;
      this.#advance(next.at);
      return next;
    }
  }

  /** @throws Error when time stands still: something plans itself anew for now, for ever. */
  #advance(at: number): void {
    this.count += 1;
    this.#atOnce = at > this.now ? 0 : this.#atOnce + 1;
    this.now = at;
    if (this.#atOnce > MAX_AT_ONCE)
      throw new Error(
        `${MAX_AT_ONCE} events at ${at} ms: something spins without letting time pass.`,
      );
  }

  #push(item: Happening): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || before(above, item)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = item;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const [left, right] = [heap[child], heap[child + 1]];
      if (left === undefined) break;
      let below = left;
      if (right !== undefined && before(right, left)) {
        child += 1;
        below = right;
      }
      if (before(last, below)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
  }
}
