import type { Clock, Timer } from "../core/clock.ts";

/**
 * How many microtask turns run between two timers. A chain of promises that is longer than this sees the next timer
 * fire before it ends; nothing in a lock manager comes near it.
 */
const DRAIN_TURNS = 256;

/** Where a `FakeClock` starts; each has a default, and the three differ so that code which mixes them up shows it. */
export interface FakeClockStart {
  readonly monoMs?: number;
  readonly bootMs?: number;
  readonly wallMs?: number;
}

interface Entry {
  readonly due: number;
  readonly order: number;
  readonly fn: () => void;
  ref: boolean;
}

/**
 * A clock that stands still until a test moves it. Timers fire only inside `advance` and `settle`, in the order of
 * their time (equal ones in the order they were started), with promises drained in between. It does not wait for
 * real input or output: a reply from a socket arrives in real time, whatever this clock says.
 */
export class FakeClock implements Clock {
  #mono: number;
  #boot: number;
  #wall: number;
  /** Sorted by due time, then by the order of starting. */
  readonly #timers: Entry[] = [];
  #started = 0;
  #moving = false;

  constructor(start: FakeClockStart = {}) {
    this.#mono = start.monoMs ?? 100_000;
    this.#boot = start.bootMs ?? 160_000;
    this.#wall = start.wallMs ?? 1_750_000_000_000;
  }

  mono(): number {
    return this.#mono;
  }

  boot(): number {
    return this.#boot;
  }

  wall(): number {
    return this.#wall;
  }

  timer(ms: number, fn: () => void, ref = false): Timer {
    // A timer of no length, or of a negative one, is due now and fires at the next movement.
    const entry = { due: this.#mono + Math.max(0, ms), order: this.#started, fn, ref };
    this.#started += 1;
    this.#timers.splice(this.#indexOf(entry), 0, entry);
    return {
      cancel: () => {
        const at = this.#indexOf(entry);
        if (this.#timers[at] === entry) this.#timers.splice(at, 1);
      },
      setRef: (hold) => {
        entry.ref = hold;
      },
    };
  }

  /** How many timers have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.length;
  }

  /** How many of the pending timers would keep a process alive. */
  get pendingRefs(): number {
    return this.#timers.filter((entry) => entry.ref).length;
  }

  /** Milliseconds until the next timer is due, 0 for an overdue one, `null` where there is none. */
  get nextMs(): number | null {
    const [next] = this.#timers;
    return next === undefined ? null : Math.max(0, next.due - this.#mono);
  }

  /**
   * Lets `ms` pass on all three clocks, firing what falls due on the way, also what was started on the way.
   * `advance(0)` fires what is due now. Rejects with what a timer's function threw.
   * @throws RangeError for a negative `ms`; Error when the clock is already moving: two hands would tear time apart
   */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`Expected a clock to advance by 0 ms or more, got ${ms}.`);
    await this.#move(this.#mono + ms, () => false);
  }

  /**
   * Advances from timer to timer until `work` settles, and gives its result.
   * @throws Error when it did not settle within `withinMs` of this clock, or when no timer is left that could help
   */
  async settle<T>(work: PromiseLike<T>, withinMs = 3_600_000): Promise<T> {
    const outcome = { settled: false };
    const settled = (): void => {
      outcome.settled = true;
    };
    work.then(settled, settled);
    const end = this.#mono + withinMs;
    await this.#move(end, () => outcome.settled || this.#timers.length === 0);
    // What has not settled may never do so: waiting for it would hang the test instead of failing it.
    if (!outcome.settled)
      throw new Error(
        this.#timers.length === 0
          ? "Still pending, and no timer is left to wait for."
          : `Still pending after ${withinMs} ms of the fake clock.`,
      );
    return await work;
  }

  /** Moves the wall clock alone, forward or back, as an administrator or NTP does. */
  step(ms: number): void {
    this.#wall += ms;
  }

  /** The host slept: boot time and the wall clock moved, the monotonic clock and its timers stood still. */
  suspend(ms: number): void {
    this.#boot += ms;
    this.#wall += ms;
  }

  /** The process was stopped or its event loop blocked: all clocks moved, no timer fired. The next `advance` fires them. */
  stall(ms: number): void {
    this.#mono += ms;
    this.suspend(ms);
  }

  /** Lets promises run without moving time and without firing timers. */
  async drain(): Promise<void> {
    for (let turn = 0; turn < DRAIN_TURNS; turn += 1) await Promise.resolve();
  }

  async #move(end: number, enough: () => boolean): Promise<void> {
    if (this.#moving) throw new Error("This clock is already advancing: await that first.");
    this.#moving = true;
    try {
      await this.drain();
      while (!enough()) {
        const [next] = this.#timers;
        if (next === undefined || next.due > end) {
          this.#moveTo(end);
          break;
        }
        this.#timers.shift();
        this.#moveTo(next.due);
        next.fn();
        await this.drain();
      }
      await this.drain();
    } finally {
      this.#moving = false;
    }
  }

  /** Never backwards: a timer may be overdue after `stall`. */
  #moveTo(mono: number): void {
    const by = Math.max(0, mono - this.#mono);
    this.#mono += by;
    this.suspend(by);
  }

  /** Where `entry` stands or belongs: the first place whose timer is not before it. */
  #indexOf(entry: Entry): number {
    let [low, high] = [0, this.#timers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#timers[middle];
      const before =
        other !== undefined &&
        (other.due < entry.due || (other.due === entry.due && other.order < entry.order));
      if (before) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
