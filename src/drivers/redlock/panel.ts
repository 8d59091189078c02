import type { Clock, Timer } from "../../core/clock.ts";
import { DriverError } from "../../core/driver.ts";
import type { Outcome } from "../redis/client.ts";
import type { Call } from "../redis/connection.ts";
import type { KeySpace } from "../redis/keys.ts";
import type { LockServer } from "./servers.ts";

/** Keys of one name on one server. */
export interface NameKeys {
  readonly lock: string;
  /** What must not be taken any more: a grant id, or a round of it. */
  buried(grantId: string, value?: string): string;
}

/** A server with the key prefix of its client. */
export interface Seat {
  readonly server: LockServer;
  readonly keys: KeySpace;
}

/** The servers of one backend, and every wait for them: bounded by a timer of ours, and over when it is closed. */
export class Panel {
  readonly seats: readonly Seat[];
  readonly clock: Clock;
  readonly #timers = new Set<Timer>();
  #closed = false;

  constructor(seats: readonly Seat[], clock: Clock) {
    this.seats = seats;
    this.clock = clock;
  }

  get size(): number {
    return this.seats.length;
  }

  label(server: number): string {
    return this.seats[server]?.server.label ?? `server ${server + 1}`;
  }

  keysOf(server: number, name: string): NameKeys {
    const [lock = ""] = this.seats[server]?.keys.of(name) ?? [];
    const stem = lock.slice(0, -1);
    return {
      lock,
      buried: (grantId, value) => `${stem}t:${grantId}${value === undefined ? "" : `:${value}`}`,
    };
  }

  /** Asks one server. Whoever hears an answer after `dueAt` must have stopped waiting for it. Never rejects. */
  async ask(server: number, calls: readonly Call[], dueAt: number): Promise<readonly Outcome[]> {
    const seat = this.seats[server];
    if (seat === undefined || this.#closed)
      return calls.map(() => ({ ok: false, error: closed() }));
    return await seat.server.runAll(calls, dueAt);
  }

  /** Asks one server, and counts it as silent when there is no answer by `dueAt`. Never rejects. */
  async askWithin(
    server: number,
    calls: readonly Call[],
    dueAt: number,
  ): Promise<readonly Outcome[]> {
    return await new Promise((resolve) => {
      const timer = this.watch(dueAt, () => {
        resolve(calls.map(() => ({ ok: false, error: noAnswer() })));
      });
      void this.ask(server, calls, dueAt).then((outcomes) => {
        timer.cancel();
        resolve(outcomes);
      });
    });
  }

  /** Calls `fn` at `dueAt`, unless it is cancelled or all is closed before. */
  watch(dueAt: number, fn: () => void): { cancel(): void } {
    const timer = this.clock.timer(Math.max(0, dueAt - this.clock.mono()), () => {
      this.#timers.delete(timer);
      fn();
    });
    this.#timers.add(timer);
    return {
      cancel: () => {
        this.#timers.delete(timer);
        timer.cancel();
      },
    };
  }

  get closed(): boolean {
    return this.#closed;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    await Promise.all(this.seats.map(async ({ server }) => server.close()));
  }
}

/** Nothing came in time: what was asked may have happened, or may still. */
export function noAnswer(): DriverError {
  return new DriverError("timeout", "unknown", "no answer in time");
}

function closed(): DriverError {
  return new DriverError("unavailable", "not-applied", "this Redlock backend was closed");
}
