import type { Clock } from "../../core/clock.ts";
import type { Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";

/** Releases between two sweeps. */
const EVERY = 256;
const TIME_MS = 5000;

/** What one sweep does in a session. */
export type Sweep<Connection> = (connection: Connection, dueAt: number) => Promise<void>;

/** Cleans up in passing, so that the tables stay as small as what is in use. What fails is left for the next time. */
export class Sweeper<Connection extends Session> {
  readonly #sessions: Sessions<Connection>;
  readonly #clock: Clock;
  readonly #sweep: Sweep<Connection>;
  #releases = 0;
  #running = false;

  constructor(sessions: Sessions<Connection>, clock: Clock, sweep: Sweep<Connection>) {
    this.#sessions = sessions;
    this.#clock = clock;
    this.#sweep = sweep;
  }

  /** Counts releases; sweeps when it is time. */
  released(count: number): void {
    this.#releases += count;
    if (this.#releases < EVERY || this.#running) return;
    this.#releases = 0;
    this.#running = true;
    const dueAt = this.#clock.mono() + TIME_MS;
    const over = (): void => {
      this.#running = false;
    };
    // A lock was not to be had, or the session ended: nothing depends on it.
    void this.#sessions
      .use(dueAt, async (connection) => this.#sweep(connection, dueAt))
      .then(over, over);
  }
}
