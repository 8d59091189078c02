import type { Clock, Timer } from "./clock.ts";

/** A timer that is long enough not to matter and short enough for every clock. */
const DAY_MS = 86_400_000;

/** Keeps the process alive while something is pending: one timer for any number of things. */
export class ProcessHold {
  readonly #clock: Clock;
  #pending = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(): void {
    this.#pending += 1;
    if (this.#pending > 1) return;
    if (this.#timer === undefined) this.#arm();
    else this.#timer.setRef(true);
  }

  end(): void {
    this.#pending -= 1;
    if (this.#pending === 0) this.#timer?.setRef(false);
  }

  /** Gives the timer up. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    this.#timer = this.#clock.timer(
      DAY_MS,
      () => {
        this.#arm();
      },
      this.#pending > 0,
    );
  }
}
