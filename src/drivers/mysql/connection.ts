import type { Clock } from "../../core/clock.ts";
import { dialled, Session } from "../sql/session.ts";
import { transaction } from "../sql/transaction.ts";
import type { Dialer, Effect, Result, Wire } from "./client.ts";
import { endsSession, numberOf } from "./errors.ts";
import { COMMIT, ROLLBACK, START } from "./sql-parts.ts";

export const DATABASE = "MySQL";

/** One session with a watch: see `Session`. */
export class Connection extends Session {
  readonly #wire: Wire;

  constructor(wire: Wire, clock: Clock) {
    const said = (error: unknown): boolean => numberOf(error) !== undefined;
    super(wire, clock, { database: DATABASE, said, ends: endsSession });
    this.#wire = wire;
  }

  /** The number of the session that was told at start-up. */
  get id(): number {
    return this.#wire.id;
  }

  /** Several statements in one message. Rejects with the server's complaint about one of them, or with a LinkError. */
  async script(text: string, dueAt: number): Promise<readonly Result[]> {
    return await this.watched(dueAt, async () => this.#wire.script(text));
  }

  /** Several statements as one transaction, in one message. What each of them came to. */
  async atOnce(statements: readonly string[], dueAt: number): Promise<readonly Result[]> {
    const text = [START, ...statements, COMMIT].join(";\n");
    const results = await transaction(this, dueAt, async () => this.script(text, dueAt));
    return results.slice(1, -1);
  }

  async rollback(dueAt: number): Promise<void> {
    await this.script(ROLLBACK, dueAt);
  }
}

/** Makes one session. */
export async function dial(dialer: Dialer, clock: Clock): Promise<Connection> {
  return await dialled({
    database: DATABASE,
    clock,
    dial: dialer,
    session: (wire) => new Connection(wire, clock),
  });
}

/** The rows of a result. */
export function rowsOf(result: Result | undefined): readonly (readonly (string | null)[])[] {
  return result !== undefined && isRows(result) ? result : [];
}

/** What a statement without rows came to. */
export function effectOf(result: Result | undefined): Effect {
  return result === undefined || isRows(result) ? { rows: 0, left: "0" } : result;
}

function isRows(result: Result): result is Exclude<Result, Effect> {
  return Array.isArray(result);
}
