import type { Clock } from "../../core/clock.ts";
import type { Answer, Ask, Backend, Driver } from "../../core/driver.ts";
import type { LockEventName } from "../../core/events.ts";
import type { LockManager } from "../../core/lock-manager.ts";
import { FaultyLink } from "../faulty-driver.ts";
import { ProcessClock } from "../process-clock.ts";

/** One process: a lock manager with a clock and a link of its own. */
export class Process {
  readonly label: string;
  readonly clock: ProcessClock;
  readonly link: FaultyLink;
  readonly locks: LockManager;
  /** What the manager told, in order. */
  readonly told: { readonly event: LockEventName; readonly name: string }[] = [];
  killed = false;

  constructor(parts: {
    readonly label: string;
    readonly driver: Driver;
    readonly clock: Clock;
    readonly onGrant: (ask: Ask, answer: Answer) => void;
    readonly create: (driver: Driver, clock: ProcessClock) => LockManager;
  }) {
    this.label = parts.label;
    this.clock = new ProcessClock(parts.clock);
    this.link = new FaultyLink(this.clock, parts.onGrant);
    this.locks = parts.create(this.link.wrap(parts.driver), this.clock);
    for (const event of ["acquired", "lost", "jeopardy", "safe", "released"] as const)
      this.locks.on(event, ({ name }) => {
        this.told.push({ event, name });
      });
  }

  /** How often the manager told this. */
  count(event: LockEventName): number {
    return this.told.filter((each) => each.event === event).length;
  }

  /** Stops it as SIGSTOP does: its clocks run on, its timers and replies wait. */
  stop(): void {
    this.clock.stop();
  }

  resume(): void {
    this.clock.resume();
  }

  /** Ends it: nothing of it runs any more, and nothing is given back. */
  kill(): void {
    this.killed = true;
    this.link.become("silent");
    this.clock.kill();
  }

  /** Closes what it has open at the driver, after the test. */
  async destroy(): Promise<void> {
    this.clock.kill();
    const open: readonly Backend[] = this.link.backends;
    for (const backend of open) await backend.close();
  }
}
