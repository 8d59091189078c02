import type { Clock, Timer } from "../../core/clock.ts";
import type { Random } from "../../core/random.ts";
import { LinkError } from "../sql/link-error.ts";
import { CONNECT_TIMEOUT_MS } from "../sql/session.ts";
import type { Dialer } from "./client.ts";
import { type Connection, dial } from "./connection.ts";

/** How wake-ups reach this process. */
export interface WakeOptions {
  readonly dialer: Dialer;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: string;
  /** Whether a session is the server's own; a pooler's hears nothing. */
  readonly greet: (connection: Connection, dueAt: number) => Promise<boolean>;
  readonly onMessage: (message: string) => void;
  /** It listens, for the first time or again: what was told before is lost. */
  readonly onListening: () => void;
}

/**
 * One session that listens on one channel, from the first waiter on and for as long as the backend is open. It is made
 * again when it ends; no wake-up is ever load-bearing, so nobody waits for it.
 */
export class Wakes {
  readonly #options: WakeOptions;
  #connection: Connection | undefined;
  #timer: Timer | undefined;
  #first: Promise<void> | undefined;
  #closed = false;
  #failures = 0;

  /** It listens now. */
  listening = false;

  constructor(options: WakeOptions) {
    this.#options = options;
  }

  /** Begins to listen, once. Resolves when the first try has ended, well or not; never rejects. */
  async start(): Promise<void> {
    this.#first ??= this.#listen();
    await this.#first;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#connection?.end(new LinkError("the session with PostgreSQL was closed", { sent: true }));
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    const { dialer, clock, channel, greet, onMessage, onListening } = this.#options;
    const state = { ended: false };
    const end = (): void => {
      if (state.ended) return;
      state.ended = true;
      this.listening = false;
      this.#again();
    };
    try {
      const connection = await dial(dialer, clock, end);
      this.#connection = connection;
      const dueAt = clock.mono() + CONNECT_TIMEOUT_MS;
      if (this.#closed) connection.end(new LinkError("the driver was closed", { sent: false }));
      else if (!(await greet(connection, dueAt))) {
        // A pooler is in between: it never will.
        state.ended = true;
        connection.end(new LinkError("a pooler passes no notifications on", { sent: false }));
      } else {
        await connection.listen(channel, onMessage, dueAt);
        this.#failures = 0;
        this.listening = true;
        onListening();
      }
    } catch {
      // Without it waiters poll: a server that has no session left for it costs speed, not locks.
      this.#connection?.end(new LinkError("the session with PostgreSQL has ended", { sent: true }));
      end();
    }
  }

  #again(): void {
    if (this.#closed) return;
    const { clock, random } = this.#options;
    this.#failures += 1;
    const ceiling = Math.min(5000, 50 * 2 ** Math.min(this.#failures, 10));
    this.#timer = clock.timer(1 + random.unit() * ceiling, () => void this.#listen());
  }
}
