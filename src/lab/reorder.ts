import type { NewEv } from "./history.ts";

interface Waiting {
  readonly event: NewEv;
  readonly n: number;
}

/** Puts events in the order of time that stand at most `window` places away from it; equal times keep their order. */
export class Reorder {
  readonly #window: number;
  readonly #emit: (event: NewEv) => void;
  /** A binary heap by time. */
  readonly #heap: Waiting[] = [];
  #n = 0;

  constructor(window: number, emit: (event: NewEv) => void) {
    this.#window = window;
    this.#emit = emit;
  }

  push(event: NewEv): void {
    if (this.#window === 0) {
      this.#emit(event);
      return;
    }
    this.#n += 1;
    this.#rise({ event, n: this.#n });
    if (this.#heap.length > this.#window) this.#pop();
  }

  /** Emits what still waits. */
  flush(): void {
    while (this.#heap.length > 0) this.#pop();
  }

  #rise(item: Waiting): void {
    const heap = this.#heap;
    let at = heap.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || isBefore(above, item)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = item;
  }

  #pop(): void {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined) return;
    if (heap.length > 0) this.#sink(last);
    this.#emit(first.event);
  }

  #sink(item: Waiting): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      let below = heap[child];
      const right = heap[child + 1];
      if (below !== undefined && right !== undefined && isBefore(right, below)) {
        child += 1;
        below = right;
      }
      if (below === undefined || isBefore(item, below)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = item;
  }
}

function isBefore(a: Waiting, b: Waiting): boolean {
  return a.event.t < b.event.t || (a.event.t === b.event.t && a.n < b.n);
}
