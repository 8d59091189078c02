import type { Clock, Timer } from "../../core/clock.ts";
import type { Host } from "../../core/driver.ts";
import type { Random } from "../../core/random.ts";
import { FakeRandom } from "../../testing/fake-random.ts";
import { seedOf } from "./choices.ts";
import type { Machine } from "./machine.ts";
import type { Happening, Scheduler } from "./scheduler.ts";

/** Slack in milliseconds when a timer's time is compared: far below what any clock shows. */
const EPSILON_MS = 1e-7;

/** Something that waits for a stopped process. `due`: monotonic time of a timer, -1 for input, -2 for where it was stopped. */
interface Pending {
  readonly due: number;
  readonly fn: () => void;
}

const INPUT = -1;
const HERE = -2;

/** `due`: when it fires, by the machine's monotonic clock. */
interface RunningTimer {
  fn: (() => void) | undefined;
  readonly due: number;
  planned: Happening | undefined;
}

/**
 * A process on a machine: what it does, it does inside `enter`. While it is stopped its timers and its input wait; then
 * timers run first, by their time, and input after them in the order of arrival, each as an event of its own. A killed
 * process never runs again; its successor is a new object.
 */
export class SimProcess {
  readonly name: string;
  /** 0 for the first of its name. */
  readonly incarnation: number;
  readonly machine: Machine;
  readonly host: Host;
  readonly random: Random;
  readonly clock: Clock;
  readonly #scheduler: Scheduler;
  #alive = true;
  #stops = 0;
  #pending: Pending[] = [];
  readonly #atDeath = new Set<() => void>();

  constructor(
    machine: Machine,
    scheduler: Scheduler,
    id: { name: string; incarnation: number; seed: number },
  ) {
    this.name = id.name;
    this.incarnation = id.incarnation;
    this.machine = machine;
    this.#scheduler = scheduler;
    const full = `${id.name}.${id.incarnation}`;
    this.random = new FakeRandom(seedOf(id.seed, full));
    this.host = {
      id: full,
      name: machine.name,
      pid: 1000 + id.incarnation,
      bootId: machine.bootId,
      timeNamespace: "host",
    };
    this.clock = {
      mono: () => machine.mono(),
      boot: () => machine.boot(),
      wall: () => machine.wall(),
      timer: (ms, fn) => this.#timer(ms, fn),
    };
  }

  get alive(): boolean {
    return this.#alive;
  }

  get stopped(): boolean {
    return this.#stops > 0;
  }

  /** Runs `fn` now, or when the process goes on, or never. */
  enter(fn: () => void): void {
    if (!this.#alive) return;
    if (this.#stops > 0) this.#pending.push({ due: INPUT, fn });
    else fn();
  }

  /** As `enter`, for what a stopped process was in the middle of: it comes before every timer and input. */
  goOn(fn: () => void): void {
    if (!this.#alive) return;
    if (this.#stops > 0) this.#pending.push({ due: HERE, fn });
    else fn();
  }

  /** Stops it, as SIGSTOP does. Counted: it goes on after as many `resume` calls. */
  pause(): void {
    this.#stops += 1;
  }

  /** Whether it goes on with this. */
  resume(): boolean {
    if (this.#stops === 0) return false;
    this.#stops -= 1;
    if (this.#stops > 0) return false;
    const pending = this.#pending;
    this.#pending = [];
    const here = pending.filter(({ due }) => due === HERE);
    const timers = pending.filter(({ due }) => due >= 0).sort((a, b) => a.due - b.due);
    const input = pending.filter(({ due }) => due === INPUT);
    for (const { fn, due } of [...here, ...timers, ...input])
      this.#scheduler.after(0, () => {
        if (due >= 0) fn();
        else if (due === HERE) this.goOn(fn);
        else this.enter(fn);
      });
    return true;
  }

  /** Ends it, as kill -9 does: its memory is lost. */
  kill(): void {
    this.#alive = false;
    this.#pending = [];
    for (const fn of this.#atDeath) fn();
    this.#atDeath.clear();
  }

  /** What the kernel does for it when it is killed: to close its connections. Returns what takes it back. */
  atDeath(fn: () => void): () => void {
    this.#atDeath.add(fn);
    return () => {
      this.#atDeath.delete(fn);
    };
  }

  /** Resolves after `ms` of its own clock. */
  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.clock.timer(ms, resolve);
    });
  }

  #timer(ms: number, fn: () => void): Timer {
    const timer: RunningTimer = {
      fn,
      due: this.machine.mono() + Math.max(0, ms),
      planned: undefined,
    };
    this.#plan(timer);
    return {
      cancel: () => {
        timer.fn = undefined;
        timer.planned?.cancel();
      },
      // A simulated process lives until it is killed.
      setRef: () => undefined,
    };
  }

  #plan(timer: RunningTimer): void {
    // A sleeping machine's clock stands still: looked at again when a millisecond has passed.
    const at = this.machine.sleeps ? this.#scheduler.now + 1 : this.machine.timeOf(timer.due);
    timer.planned = this.#scheduler.at(at, () => {
      this.#due(timer);
    });
  }

  #due(timer: RunningTimer): void {
    if (!this.#alive || timer.fn === undefined) return;
    if (this.#stops > 0)
      this.#pending.push({
        due: timer.due,
        fn: () => {
          this.#due(timer);
        },
      });
    else if (this.machine.mono() < timer.due - EPSILON_MS) this.#plan(timer);
    else timer.fn();
  }
}
