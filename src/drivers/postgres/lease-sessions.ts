import type { Clock } from "../../core/clock.ts";
import { DriverError } from "../../core/driver.ts";
import { LinkError } from "../sql/link-error.ts";
import { CONNECT_TIMEOUT_MS } from "../sql/session.ts";
import type { Greeting } from "../sql/sessions.ts";
import type { Dialer } from "./client.ts";
import { type Connection, dial } from "./connection.ts";

/** Sessions that wait for their next lease: those that poll need one each time. */
const KEEP_IDLE = 2;

/** Sessions that belong to whoever took one, for as long as they like. */
export class LeaseSessions {
  readonly #dialer: Dialer;
  readonly #clock: Clock;
  readonly #max: number;
  readonly #greet: Greeting<Connection>;
  readonly #onEnd: (connection: Connection) => void;
  readonly #idle: Connection[] = [];
  readonly #all = new Set<Connection>();
  #making = 0;
  #closed = false;

  constructor(parts: {
    readonly dialer: Dialer;
    readonly clock: Clock;
    readonly max: number;
    readonly greet: Greeting<Connection>;
    /** A session ended, whoever ended it. */
    readonly onEnd: (connection: Connection) => void;
  }) {
    this.#dialer = parts.dialer;
    this.#clock = parts.clock;
    this.#max = parts.max;
    this.#greet = parts.greet;
    this.#onEnd = parts.onEnd;
  }

  /**
   * A session that nobody has.
   * @throws DriverError when there are as many as there may be
   */
  async take(dueAt: number): Promise<Connection> {
    for (let found = this.#idle.pop(); found !== undefined; found = this.#idle.pop())
      if (found.open) return found;
    if (this.#closed) throw new LinkError("the driver was closed", { sent: false });
    if (this.#all.size + this.#making >= this.#max)
      throw new DriverError(
        "unavailable",
        "not-applied",
        `All ${this.#max} sessions of this driver hold a lease or take one: raise \`maxSessions\`, or use the lease table`,
      );
    this.#making += 1;
    try {
      return await this.#make(dueAt);
    } finally {
      this.#making -= 1;
    }
  }

  /** Takes a session back that holds nothing. */
  give(connection: Connection): void {
    if (!connection.open) return;
    if (this.#idle.length < KEEP_IDLE && !this.#closed) this.#idle.push(connection);
    else this.end(connection);
  }

  end(connection: Connection): void {
    this.#all.delete(connection);
    connection.end(new LinkError("the session was given up", { sent: true }));
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#all) this.end(connection);
  }

  async #make(dueAt: number): Promise<Connection> {
    const state: { made?: Connection } = {};
    const made = await dial(this.#dialer, this.#clock, () => {
      if (state.made === undefined) return;
      this.#all.delete(state.made);
      this.#onEnd(state.made);
    });
    state.made = made;
    if (this.#closed) {
      made.end(new LinkError("the driver was closed", { sent: false }));
      throw new LinkError("the driver was closed", { sent: false });
    }
    if (made.open) this.#all.add(made);
    await this.#greet(made, Math.min(dueAt, this.#clock.mono() + CONNECT_TIMEOUT_MS));
    return made;
  }
}
