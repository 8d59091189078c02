import type { Scheduler } from "./scheduler.ts";

/** Where every simulated wall clock starts: a fixed day, so that tokens in microseconds repeat. */
const EPOCH_MS = 1_750_000_000_000;
/** One nanosecond: how far a timer is planned beyond its due time, against rounding. */
const TICK_MS = 1e-6;

/** What the clocks of a machine read when its programs start after a boot. */
const UP_MS = 2000;

/** The clock faults and differences of one machine. */
export interface MachineOptions {
  /** Speed of its clocks: 1.01 gains 1 %. */
  readonly rate?: number;
  /** What its wall clock is off by, in milliseconds. */
  readonly wallOffsetMs?: number;
}

/**
 * A computer with its three clocks, all at one rate. While it sleeps the monotonic clock stands still and the boot and
 * wall clocks go on.
 */
export class Machine {
  readonly name: string;
  readonly #scheduler: Scheduler;
  readonly #startedAt: number;
  #rate: number;
  /** Boot time is `#base` at `#since`, and grows by `#rate`. */
  #base = 50_000;
  #since: number;
  #sleptMs = 0;
  #sleepsSince: number | null = null;
  #wallOffsetMs: number;
  #boots = 1;

  constructor(name: string, scheduler: Scheduler, options: MachineOptions = {}) {
    this.name = name;
    this.#scheduler = scheduler;
    this.#startedAt = scheduler.now;
    this.#since = scheduler.now;
    this.#rate = options.rate ?? 1;
    this.#wallOffsetMs = EPOCH_MS + this.#startedAt - this.#base + (options.wallOffsetMs ?? 0);
  }

  mono(): number {
    return (this.#sleepsSince ?? this.boot()) - this.#sleptMs;
  }

  boot(): number {
    return this.#base + (this.#scheduler.now - this.#since) * this.#rate;
  }

  wall(): number {
    return this.boot() + this.#wallOffsetMs;
  }

  /** Changes with every boot. */
  get bootId(): string {
    return `boot-${this.name}${this.#boots === 1 ? "" : `-${this.#boots}`}`;
  }

  /**
   * Starts anew: boot time and the monotonic clock begin again, the wall clock goes on, off by `wallMs`. What ran on it has to
   * be dead: `World.powerOff`.
   */
  reboot(wallMs: number): void {
    const wall = this.wall() + wallMs;
    this.#boots += 1;
    this.#base = UP_MS;
    this.#since = this.#scheduler.now;
    this.#sleptMs = 0;
    this.#sleepsSince = null;
    this.#wallOffsetMs = wall - UP_MS;
  }

  get sleeps(): boolean {
    return this.#sleepsSince !== null;
  }

  get rate(): number {
    return this.#rate;
  }

  /** Moves the wall clock alone. */
  step(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  /** From now on its clocks run at `rate`. */
  drift(rate: number): void {
    this.#base = this.boot();
    this.#since = this.#scheduler.now;
    this.#rate = rate;
  }

  sleep(): void {
    this.#sleepsSince ??= this.boot();
  }

  wake(): void {
    if (this.#sleepsSince === null) return;
    this.#sleptMs += this.boot() - this.#sleepsSince;
    this.#sleepsSince = null;
  }

  /** True time at which the monotonic clock reads `mono`, if nothing happens to it until then. */
  timeOf(mono: number): number {
    const ms = mono - this.mono();
    return this.#scheduler.now + (ms <= 0 ? 0 : ms / this.#rate + TICK_MS);
  }
}
