import type { Clock, Timer } from "../core/clock.ts";

interface Entry {
  readonly fn: () => void;
  inner: Timer;
  ref: boolean;
}

/**
 * One process's view of a host's clock: it can be stopped and resumed, as SIGSTOP does or a blocked event loop, and its
 * wall clock can be stepped alone. While it is stopped its clocks run on and its timers do not fire.
 */
export class ProcessClock implements Clock {
  readonly #host: Clock;
  readonly #timers = new Set<Entry>();
  #missed: Entry[] = [];
  #resuming: (() => void)[] = [];
  #wallOffsetMs = 0;
  #stopped = false;

  constructor(host: Clock) {
    this.#host = host;
  }

  mono(): number {
    return this.#host.mono();
  }

  boot(): number {
    return this.#host.boot();
  }

  wall(): number {
    return this.#host.wall() + this.#wallOffsetMs;
  }

  timer(ms: number, fn: () => void, ref = false): Timer {
    const entry: Entry = { fn, ref, inner: this.#start(ms, ref, () => entry) };
    this.#timers.add(entry);
    return {
      cancel: () => {
        this.#timers.delete(entry);
        entry.inner.cancel();
      },
      setRef: (hold) => {
        entry.ref = hold;
        entry.inner.setRef(hold);
      },
    };
  }

  /** How many timers have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.size;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Moves this process's wall clock alone. */
  stepWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** What was missed comes now: first whatever waits in `running`, then the timers, in the order of their time. */
  resume(): void {
    if (!this.#stopped) return;
    this.#stopped = false;
    const missed = this.#missed.filter((entry) => this.#timers.has(entry));
    this.#missed = [];
    for (const entry of missed) entry.inner = this.#start(0, entry.ref, () => entry);
    const resuming = this.#resuming;
    this.#resuming = [];
    for (const go of resuming) go();
  }

  /** Resolves at once, or when a stopped process is resumed: its input waits outside meanwhile. */
  async running(): Promise<void> {
    if (this.#stopped)
      await new Promise<void>((resolve) => {
        this.#resuming.push(resolve);
      });
  }

  /** The process ends: nothing of it ever runs again. */
  kill(): void {
    this.stop();
    for (const entry of this.#timers) entry.inner.cancel();
    this.#timers.clear();
    this.#resuming = [];
  }

  #start(ms: number, ref: boolean, entryOf: () => Entry): Timer {
    return this.#host.timer(
      ms,
      () => {
        const entry = entryOf();
        if (this.#stopped) this.#missed.push(entry);
        else if (this.#timers.delete(entry)) entry.fn();
      },
      ref,
    );
  }
}
