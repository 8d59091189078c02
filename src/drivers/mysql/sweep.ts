import type { Clock } from "../../core/clock.ts";
import type { Sessions } from "../sql/sessions.ts";
import { transaction } from "../sql/transaction.ts";
import { type Connection, rowsOf } from "./connection.ts";
import { CLOSE, OPEN, type Statements } from "./sql-parts.ts";

/** Releases between two sweeps. */
const EVERY = 256;
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
      // A row was not to be had, or the session ended: nothing depends on it.
      () => (this.#running = false),
    );
  }

  async #sweep(): Promise<void> {
    const dueAt = this.#clock.mono() + TIME_MS;
    const sql = this.#sql;
    await this.#sessions.use(dueAt, async (connection) => {
      const results = await connection.script(`${sql.sweepAside.text};\n${sql.idle.text}`, dueAt);
      const ids = idsOf(results.at(-1));
      if (ids.length > 0)
        await transaction(connection, dueAt, async () => this.#clear(connection, ids, dueAt));
    });
  }

  /** Takes the rows that are free first, and looks afterwards: nobody changes what is locked. */
  async #clear(connection: Connection, idle: readonly string[], dueAt: number): Promise<void> {
    const sql = this.#sql;
    const first = [...OPEN, sql.floor.text, sql.lockIdle(idle)];
    const ids = idsOf((await connection.script(first.join(";\n"), dueAt)).at(-1));
    if (ids.length === 0) {
      await connection.rollback(dueAt);
      return;
    }
    const [spent, simple] = await connection.script(
      [sql.spent(ids), sql.settle(ids)].join(";\n"),
      dueAt,
    );
    const highest = rowsOf(spent)
      .map(([, number]) => BigInt(number ?? 0))
      .reduce((a, b) => (a > b ? a : b), 0n);
    const [gone, settled] = [idsOf(spent), idsOf(simple)];
    const writes = [
      ...(gone.length > 0 ? sql.remove(gone, highest) : []),
      ...(settled.length > 0 ? [sql.settled(settled)] : []),
    ];
    await connection.script([...writes, ...CLOSE].join(";\n"), dueAt);
  }
}

function idsOf(result: Parameters<typeof rowsOf>[0]): string[] {
  return rowsOf(result).flatMap(([id]) => id ?? []);
}
