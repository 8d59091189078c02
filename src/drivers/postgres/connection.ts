import type { Clock } from "../../core/clock.ts";
import { dialled, Session } from "../sql/session.ts";
import type { Call } from "../sql/statement.ts";
import type { Dialer, Wire } from "./client.ts";
import { endsSession, sqlState } from "./errors.ts";

export const DATABASE = "PostgreSQL";

/** One session with a watch: see `Session`. */
export class Connection extends Session {
  readonly #wire: Wire;
  /** Whether plans may be kept on the server: not where a pooler hands each transaction to another session. */
  prepare = true;

  constructor(wire: Wire, clock: Clock) {
    const said = (error: unknown): boolean => sqlState(error) !== undefined;
    super(wire, clock, { database: DATABASE, said, ends: endsSession });
    this.#wire = wire;
  }

  get pid(): number {
    return this.#wire.pid;
  }

  /** One statement, by itself a transaction. Rejects with the server's complaint, or with a LinkError. */
  async run(call: Call, dueAt: number): Promise<readonly string[]> {
    return await this.watched(dueAt, async () => this.#wire.run(call, this.prepare));
  }

  /** Several statements in one message. The rows of all. */
  async script(text: string, dueAt: number): Promise<readonly string[]> {
    return await this.watched(dueAt, async () => this.#wire.script(text));
  }

  async rollback(dueAt: number): Promise<void> {
    await this.script("ROLLBACK", dueAt);
  }

  async listen(
    channel: string,
    onMessage: (payload: string) => void,
    dueAt: number,
  ): Promise<void> {
    await this.watched(dueAt, async () => this.#wire.listen(channel, onMessage));
  }
}

/** Makes one session. `onEnd` is called when it ends by itself. */
export async function dial(
  dialer: Dialer,
  clock: Clock,
  onEnd: () => void = () => undefined,
): Promise<Connection> {
  return await dialled({
    database: DATABASE,
    clock,
    dial: async (ended) => dialer.dial(ended),
    session: (wire) => new Connection(wire, clock),
    onEnd,
  });
}
