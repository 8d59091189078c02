import type { Clock } from "./clock.ts";
import type { Random } from "./random.ts";
import type { Secrets } from "./secrets.ts";

/** The wall clock may gain this much on the monotonic one before anybody looks at the boot clock. */
const ALARM_MS = 20;
/** Without an alarm the boot clock is looked at this often, by the monotonic clock: a wall clock that was set back before
 * a sleep would hide the sleep. */
const LOOK_MS = 1000;
/** So often the clocks are read again before a gain is believed. */
const READ_AGAIN = 3;
/** The boot clock is read in steps of 10 ms: a smaller gain is noise. */
const BOOT_STEP_MS = 15;

/**
 * What a holder subtracts from its ttl: `ratio` of it for clocks that run at different rates, and 5 % of it, 20 to
 * 250 ms, for timers that fire late.
 */
export function marginMs(ttlMs: number, ratio: number): number {
  return ttlMs * ratio + Math.min(250, Math.max(20, ttlMs * 0.05));
}

/** What the wall clock's alarm turned out to be. */
export type ClockAlarm = "slept" | "wall-step";

/**
 * The clock of a *holder*: the larger of monotonic and boot time, so that a suspend counts. The boot clock is too slow
 * to read at each step; the wall clock, read beside the monotonic one, is its alarm.
 *
 * An *observer* (a waiter's budget, a watched record) must use the smallest clock instead: plain `clock.mono()`.
 */
export class HolderClock {
  readonly #clock: Clock;
  readonly #drawn: Random | Secrets;
  readonly #onAlarm: (alarm: ClockAlarm) => void;
  /** Boot time minus monotonic time when this clock was made: what had been slept before. */
  readonly #bootOffsetMs: number;
  #wallOffsetMs: number;
  #sleptMs = 0;
  /** Monotonic time of the last look at the boot clock. */
  #lookedAt: number;

  /** `drawn`: random numbers that were drawn in advance, forgotten at each alarm. */
  constructor(clock: Clock, drawn: Random | Secrets, onAlarm: (alarm: ClockAlarm) => void) {
    this.#clock = clock;
    this.#drawn = drawn;
    this.#onAlarm = onAlarm;
    // In this order: time that passes between the readings may only make a later suspend look longer.
    const boot = clock.boot();
    const mono = clock.mono();
    this.#bootOffsetMs = boot - mono;
    this.#wallOffsetMs = clock.wall() - mono;
    this.#lookedAt = mono;
  }

  /** What this clock is ahead of the monotonic one, as of the last reading. */
  get sleptMs(): number {
    return this.#sleptMs;
  }

  /** Milliseconds on the holder's clock. Only differences mean anything. */
  now(): number {
    let mono = this.#clock.mono();
    let offset = this.#clock.wall() - mono;
    // A process that is preempted between the two readings sees a gain that is none: a true one is there again.
    for (let n = 0; n < READ_AGAIN && offset - this.#wallOffsetMs > ALARM_MS; n += 1) {
      mono = this.#clock.mono();
      offset = Math.min(offset, this.#clock.wall() - mono);
    }
    if (offset - this.#wallOffsetMs > ALARM_MS) this.#alarm(mono, offset);
    else if (offset < this.#wallOffsetMs) this.#setBack(mono, offset);
    else if (mono - this.#lookedAt >= LOOK_MS) this.#noticeSleep(mono);
    return mono + this.#sleptMs;
  }

  /** A wall clock that was set back changes nothing by itself, but a suspend may hide behind it: NTP steps on resume. */
  #setBack(mono: number, offset: number): void {
    const far = this.#wallOffsetMs - offset > ALARM_MS;
    this.#wallOffsetMs = offset;
    if (far) this.#noticeSleep(mono);
  }

  #alarm(mono: number, offset: number): void {
    this.#wallOffsetMs = offset;
    // Whatever happened, this may be a copy of a machine: its twin would draw the same numbers.
    this.#drawn.forget?.();
    if (!this.#noticeSleep(mono)) this.#onAlarm("wall-step");
  }

  /** Looks at the boot clock: whether the host slept since the last look. */
  #noticeSleep(mono: number): boolean {
    this.#lookedAt = mono;
    const slept = this.#clock.boot() - mono - this.#bootOffsetMs;
    if (slept - this.#sleptMs <= BOOT_STEP_MS) return false;
    this.#sleptMs = slept;
    this.#onAlarm("slept");
    return true;
  }
}
