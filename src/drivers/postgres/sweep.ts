import type { Clock } from "../../core/clock.ts";
import type { Sessions } from "../sql/sessions.ts";
import { inlined } from "../sql/statement.ts";
import type { Connection } from "./connection.ts";
import { encoded } from "./options.ts";
import type { Statements } from "./sql-parts.ts";

/** Releases between two sweeps. */
const EVERY = 256;
/** Rows cleared in one sweep: more than were added since the last one. */
const SIZE = 1024;
const TIME_MS = 5000;

/** Cleans up in passing, so that the tables stay as small as what is in use. What fails is left for the next time. */
export class Sweeper {
  readonly #sessions: Sessions<Connection>;
  readonly #sql: Statements;
  readonly #clock: Clock;
  #releases = 0;
  #running = false;

  constructor(sessions: Sessions<Connection>, sql: Statements, clock: Clock) {
    this.#sessions = sessions;
    this.#sql = sql;
    this.#clock = clock;
  }

  /** Counts releases; sweeps when it is time. */
  released(count: number): void {
    this.#releases += count;
    if (this.#releases < EVERY || this.#running) return;
    this.#releases = 0;
    this.#running = true;
    void this.#sweep().then(
      () => (this.#running = false),
      // The table lock was not to be had, or the session ended: nothing depends on it.
      () => (this.#running = false),
    );
  }

  async #sweep(): Promise<void> {
    const dueAt = this.#clock.mono() + TIME_MS;
    const sql = this.#sql;
    await this.#sessions.use(dueAt, async (connection) => {
      await connection.script(inlined({ statement: sql.sweepAside, args: [] }, encoded), dueAt);
      const keys = await connection.run({ statement: sql.idle, args: [String(SIZE)] }, dueAt);
      if (keys.length === 0) return;
      const call = { statement: sql.sweepLocks, args: [JSON.stringify(keys)] };
      await connection.script(inlined(call, encoded), dueAt);
    });
  }
}
