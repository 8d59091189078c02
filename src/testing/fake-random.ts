import type { Random } from "../core/random.ts";

/** Chance that repeats itself: the same seed gives the same numbers. For tests only, anybody can predict it. */
export class FakeRandom implements Random {
  #state: number;

  /** `seed`: any number; its whole part modulo 2^32 counts. */
  constructor(seed = 1) {
    this.#state = seed >>> 0;
  }

  bytes(n: number): Uint8Array {
    const bytes = new Uint8Array(n);
    for (let i = 0; i < n; i += 1) bytes[i] = this.#next() >>> 24;
    return bytes;
  }

  unit(): number {
    return this.#next() / 2 ** 32;
  }

  /** A Weyl sequence, mixed by two multiplications: even enough for tests, and a period of 2^32. */
  #next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return (mixed ^ (mixed >>> 16)) >>> 0;
  }
}
