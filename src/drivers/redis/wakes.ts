import type { Clock, Timer } from "../../core/clock.ts";
import type { Random } from "../../core/random.ts";
import { type Address, CONNECT_TIMEOUT_MS, type Dialer } from "./client.ts";
import { Connection } from "./connection.ts";
import { LinkError } from "./errors.ts";

/** The longest that the first waiter waits for the subscription. */
const PATIENCE_MS = 2000;

/** How wake-ups reach this process. */
export interface WakeOptions {
  readonly dialer: Dialer;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: string;
  /** Which server to listen to, asked again for each connection. */
  readonly address: () => Address | null;
  readonly onMessage: (message: string) => void;
  /** The subscription stands, for the first time or again: what was published before is lost. */
  readonly onListening: () => void;
}

/**
 * One connection that listens on one channel, from the first waiter on and for as long as the backend is open. It is
 * made again when it ends; no wake-up is ever load-bearing, so nobody waits for it.
 */
export class Wakes {
  readonly #options: WakeOptions;
  #connection: Connection | undefined;
  #timer: Timer | undefined;
  #started: Promise<void> | undefined;
  #closed = false;
  #failures = 0;

  constructor(options: WakeOptions) {
    this.#options = options;
  }

  /** Settled once the first try has come to something, or has taken so long that waiters should rather poll. */
  ready = false;

  /** Begins to listen. Resolves when `ready`. */
  async start(patienceMs: number): Promise<void> {
    this.#started ??= new Promise((resolve) => {
      const timer = this.#options.clock.timer(Math.min(patienceMs, PATIENCE_MS), () => {
        this.ready = true;
        resolve();
      });
      void this.#listen().then(() => {
        timer.cancel();
        this.ready = true;
        resolve();
      });
    });
    await this.#started;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#connection?.end(new LinkError("the connection to Redis was closed", { sent: true }));
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    const { dialer, clock, channel, address, onMessage, onListening } = this.#options;
    const state = { ended: false };
    const end = (): void => {
      if (state.ended) return;
      state.ended = true;
      this.#again();
    };
    try {
      const wire = await dialer.dial(address(), end);
      this.#connection = new Connection(wire, clock);
      if (this.#closed || state.ended) {
        this.#connection.end(new LinkError("the connection to Redis has ended", { sent: true }));
        return;
      }
      await this.#connection.subscribe(channel, onMessage, clock.mono() + CONNECT_TIMEOUT_MS);
      this.#failures = 0;
      onListening();
    } catch {
      // Without it waiters poll: a server that forbids the channel costs speed, not locks.
      this.#connection?.end(new LinkError("the connection to Redis has ended", { sent: true }));
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
