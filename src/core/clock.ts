/** A host's clocks and timers, lent to core and drivers so that tests and the simulator can lend others. */
export interface Clock {
  /** Milliseconds since boot, comparable between processes of one host; stops while the host is suspended. */
  mono(): number;
  /** Milliseconds since boot, counting suspend. Costs up to 10 µs: read on suspicion only, never per operation. */
  boot(): number;
  /** Unix milliseconds. May step in either direction. */
  wall(): number;
  /**
   * Calls `fn` once at or after `mono() + ms`; any `ms` up to 2^53. With `ref` the timer keeps the process alive.
   * `fn` must not throw.
   */
  timer(ms: number, fn: () => void, ref?: boolean): Timer;
}

/** A timer that was started; cancelling it twice, or after it fired, does nothing. */
export interface Timer {
  cancel(): void;
  /** Whether it keeps the process alive from now on. */
  setRef(ref: boolean): void;
}
