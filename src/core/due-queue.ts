import type { Clock, Timer } from "./clock.ts";

/** Something that is due at a time. `dueAt` belongs to the queue while it is queued. */
export interface Due {
  /** In milliseconds of the queue's clock; -1 while it is in no queue. */
  dueAt: number;
}

/**
 * Many things that are due at their own times, behind one timer. Adding and removing cost the same with ten and with a
 * hundred thousand: entries share a bucket per millisecond, and only the buckets are kept in a heap.
 */
export class DueQueue<T extends Due> {
  readonly #clock: Clock;
  readonly #now: () => number;
  readonly #onDue: (items: T[]) => void;
  readonly #ref: boolean;
  readonly #buckets = new Map<number, Set<T>>();
  #heap: number[] = [];
  #timer: Timer | undefined;
  #armedFor = Infinity;

  /** `onDue` gets what is due, never an empty list, and must not throw. With `ref` a queued item keeps the process alive. */
  constructor(clock: Clock, now: () => number, onDue: (items: T[]) => void, ref = false) {
    this.#clock = clock;
    this.#now = now;
    this.#onDue = onDue;
    this.#ref = ref;
  }

  /**
   * Queues the item for `at`, or moves it there; Infinity takes it out. With `slackMs` it may come up to so much
   * earlier, which lets many items share a bucket.
   */
  set(item: T, at: number, slackMs = 0): void {
    const grain = slackMs >= 2 ? 2 ** Math.floor(Math.log2(slackMs)) : 1;
    const early = Math.floor(at / grain) * grain;
    // What is nearly due gets its exact time: an early bucket in the past would fire for nothing, again and again.
    const tick = grain > 1 && early > this.#now() ? early : Math.ceil(at);
    if (item.dueAt === tick) return;
    this.delete(item);
    if (tick === Infinity) return;
    item.dueAt = tick;
    const bucket = this.#buckets.get(tick);
    if (bucket !== undefined) {
      bucket.add(item);
      return;
    }
    this.#buckets.set(tick, new Set<T>().add(item));
    push(this.#heap, tick);
    // Ticks of emptied buckets stay in the heap until there are too many of them.
    if (this.#heap.length > 2 * this.#buckets.size + 64)
      this.#heap = [...this.#buckets.keys()].sort((a, b) => a - b);
    if (tick < this.#armedFor) this.#arm(tick);
  }

  delete(item: T): void {
    if (item.dueAt < 0) return;
    const bucket = this.#buckets.get(item.dueAt);
    bucket?.delete(item);
    if (bucket?.size === 0) this.#buckets.delete(item.dueAt);
    item.dueAt = -1;
    // A timer that nobody needs any more may fire for nothing, but must not keep the process alive.
    if (this.#ref && this.#buckets.size === 0) this.#disarm();
  }

  /** Takes everything out and stops the timer. */
  clear(): void {
    for (const item of this.items()) item.dueAt = -1;
    this.#buckets.clear();
    this.#heap = [];
    this.#disarm();
  }

  /** How many times are kept in order: bounded by what is queued. */
  get ticks(): number {
    return this.#heap.length;
  }

  /** Everything queued, in no order. */
  *items(): IterableIterator<T> {
    for (const bucket of this.#buckets.values()) yield* bucket;
  }

  /** Hands out what is due now; also called from outside when the clock jumped. */
  run(): void {
    const now = this.#now();
    const due: T[] = [];
    for (let tick = this.#heap[0]; tick !== undefined && tick <= now; tick = this.#heap[0]) {
      pop(this.#heap);
      for (const item of this.#buckets.get(tick) ?? []) {
        item.dueAt = -1;
        due.push(item);
      }
      this.#buckets.delete(tick);
    }
    this.#rearm();
    if (due.length > 0) this.#onDue(due);
  }

  #rearm(): void {
    this.#disarm();
    // Ticks whose bucket was emptied meanwhile ask for no timer.
    let tick = this.#heap[0];
    for (; tick !== undefined && !this.#buckets.has(tick); tick = this.#heap[0]) pop(this.#heap);
    if (tick !== undefined) this.#arm(tick);
  }

  #arm(tick: number): void {
    this.#timer?.cancel();
    this.#armedFor = tick;
    this.#timer = this.#clock.timer(
      tick - this.#now(),
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
