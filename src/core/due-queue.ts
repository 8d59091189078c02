import type { Clock, Timer } from "./clock.ts";

/** Something that is due at a time. `dueAt` belongs to the queue while it is queued. */
export interface Due {
  /** In milliseconds of the queue's clock; -1 while it is in no queue. */
  dueAt: number;
}

/** The most that a bucket may come early. */
const MAX_GRAIN_MS = 2 ** 30;

/** What is due in one millisecond: mostly one item; `null` where the last one was taken out. */
type Bucket<T> = T | Set<T> | null;

/**
 * Many things that are due at their own times, behind one timer. Adding and removing cost the same with ten and with a
 * hundred thousand: entries share a bucket per millisecond, and only the buckets are kept in a heap.
 */
export class DueQueue<T extends Due> {
  readonly #clock: Clock;
  readonly #now: () => number;
  readonly #onDue: (items: T[]) => void;
  readonly #ref: boolean;
  readonly #lookMs: number;
  readonly #buckets = new Map<number, Bucket<T>>();
  /** The tick whose bucket was emptied last, still there: what comes and goes within a millisecond finds it again. */
  #spare = -1;
  #size = 0;
  #heap: number[] = [];
  #timer: Timer | undefined;
  #armedFor = Infinity;

  /**
   * `onDue` gets what is due, never an empty list, and must not throw. With `ref` a queued item keeps the process alive.
   * `lookMs`: while anything is queued, the queue's clock is looked at so often. Needed where it may run ahead of the
   * clock of timers, which stands still while the host sleeps.
   */
  constructor(
    clock: Clock,
    now: () => number,
    onDue: (items: T[]) => void,
    { ref = false, lookMs = Infinity }: { readonly ref?: boolean; readonly lookMs?: number } = {},
  ) {
    this.#clock = clock;
    this.#now = now;
    this.#onDue = onDue;
    this.#ref = ref;
    this.#lookMs = lookMs;
  }

  /**
   * Queues the item for `at`, or moves it there; Infinity takes it out. With `slackMs` it may come up to so much
   * earlier, which lets many items share a bucket. `now`: a reading of the queue's clock that the caller just took.
   */
  set(item: T, at: number, slackMs = 0, now?: number): void {
    // The largest power of two up to it.
    const grain = slackMs >= 2 ? 1 << (31 - Math.clz32(Math.min(slackMs, MAX_GRAIN_MS))) : 1;
    const early = Math.floor(at / grain) * grain;
    // What is nearly due gets its exact time: an early bucket in the past would fire for nothing, again and again.
    const tick = grain > 1 && early > (now ?? this.#now()) ? early : Math.ceil(at);
    if (item.dueAt === tick) return;
    this.delete(item);
    if (tick === Infinity) return;
    item.dueAt = tick;
    this.#size += 1;
    const bucket = this.#buckets.get(tick);
    if (bucket instanceof Set) bucket.add(item);
    else
      this.#buckets.set(
        tick,
        bucket === undefined || bucket === null ? item : new Set<T>([bucket, item]),
      );
    if (bucket === undefined) {
      push(this.#heap, tick);
      // Ticks of emptied buckets stay in the heap until there are too many of them.
      if (this.#heap.length > 2 * this.#buckets.size + 64)
        this.#heap = [...this.#buckets.keys()].sort((a, b) => a - b);
    } else if (tick === this.#spare) this.#spare = -1;
    if (tick < this.#armedFor) this.#arm(tick);
  }

  delete(item: T): void {
    const tick = item.dueAt;
    if (tick < 0) return;
    item.dueAt = -1;
    this.#size -= 1;
    const bucket = this.#buckets.get(tick);
    if (bucket instanceof Set && bucket.size > 1) bucket.delete(item);
    else {
      this.#buckets.set(tick, null);
      if (this.#spare >= 0) this.#buckets.delete(this.#spare);
      this.#spare = tick;
    }
    // A timer that nobody needs any more may fire for nothing, but must not keep the process alive.
    if (this.#ref && this.#size === 0) this.#disarm();
  }

  /** Takes everything out and stops the timer. */
  clear(): void {
    for (const item of this.items()) item.dueAt = -1;
    this.#buckets.clear();
    this.#spare = -1;
    this.#size = 0;
    this.#heap = [];
    this.#disarm();
  }

  /** How many times are kept in order: bounded by what is queued. */
  get ticks(): number {
    return this.#heap.length;
  }

  /** Everything queued, in no order. */
  *items(): IterableIterator<T> {
    for (const bucket of this.#buckets.values()) yield* listOf(bucket);
  }

  /** Hands out what is due now; also called from outside when the clock jumped. */
  run(): void {
    const now = this.#now();
    const due: T[] = [];
    for (let tick = this.#heap[0]; tick !== undefined && tick <= now; tick = this.#heap[0]) {
      pop(this.#heap);
      for (const item of listOf(this.#buckets.get(tick))) {
        item.dueAt = -1;
        due.push(item);
      }
      this.#buckets.delete(tick);
      if (tick === this.#spare) this.#spare = -1;
    }
    this.#size -= due.length;
    this.#rearm();
    if (due.length > 0) this.#onDue(due);
  }

  #rearm(): void {
    this.#disarm();
    this.#buckets.delete(this.#spare);
    this.#spare = -1;
    // Ticks whose bucket was emptied meanwhile ask for no timer.
    let tick = this.#heap[0];
    for (; tick !== undefined && !this.#buckets.has(tick); tick = this.#heap[0]) pop(this.#heap);
    if (tick !== undefined) this.#arm(tick);
  }

  #arm(tick: number): void {
    this.#timer?.cancel();
    this.#armedFor = tick;
    this.#timer = this.#clock.timer(
      Math.min(tick - this.#now(), this.#lookMs),
      () => {
        this.#timer = undefined;
        this.run();
      },
      this.#ref,
    );
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#armedFor = Infinity;
  }
}

function listOf<T>(bucket: Bucket<T> | undefined): Iterable<T> {
  if (bucket === null || bucket === undefined) return [];
  return bucket instanceof Set ? bucket : [bucket];
}

function push(heap: number[], value: number): void {
  let at = heap.length;
  heap.push(value);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] ?? 0;
    if (above <= value) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = value;
}

function pop(heap: number[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if ((heap[child + 1] ?? Infinity) < (heap[child] ?? Infinity)) child += 1;
    const below = heap[child] ?? Infinity;
    if (below >= last) break;
    heap[at] = below;
    at = child;
  }
  heap[at] = last;
}
