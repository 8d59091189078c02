import { uptime } from "node:os";
import type { Clock, Timer } from "../core/clock.ts";

/** The longest delay that one Node timer takes; a longer one fires after 1 ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The host's clocks: CLOCK_MONOTONIC (comparable between processes), boot time, wall time, and Node's timers. */
export const systemClock: Clock = {
  mono: () => {
    // Not performance.now() and an offset: a process that is preempted while it takes the two readings of which the
    // offset is made would count itself late for as long as it lives, and its leases would end early for others.
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1000 + nanoseconds / 1e6;
  },
  boot: () => uptime() * 1000,
  wall: () => Date.now(),
  timer: (ms, fn, ref = false) => new SystemTimer(ms, fn, ref),
};

/** A timer that may be longer than Node's longest. */
class SystemTimer implements Timer {
  #handle: NodeJS.Timeout | undefined;
  #ref: boolean;

  constructor(ms: number, fn: () => void, ref: boolean) {
    this.#ref = ref;
    this.#arm(Math.max(0, ms), fn);
  }

  #arm(ms: number, fn: () => void): void {
    // Node rounds delays down to whole milliseconds, and the contract is "at or after".
    this.#handle =
      ms > MAX_TIMER_MS
        ? setTimeout(() => {
            this.#arm(ms - MAX_TIMER_MS, fn);
          }, MAX_TIMER_MS)
        : setTimeout(fn, Math.ceil(ms));
    if (!this.#ref) this.#handle.unref();
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }

  setRef(ref: boolean): void {
    this.#ref = ref;
    if (ref) this.#handle?.ref();
    else this.#handle?.unref();
  }
}
