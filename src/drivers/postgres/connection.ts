import type { Clock, Timer } from "../../core/clock.ts";
import { type Call, CONNECT_TIMEOUT_MS, type Dialer, type Wire } from "./client.ts";
import { endsSession, LinkError, sqlState } from "./errors.ts";

/** One session with a watch: a statement that is overdue ends it, since it may still be applied. It is never used again. */
export class Connection {
  readonly #wire: Wire;
  readonly #clock: Clock;
  #ended: LinkError | undefined;
  #fail: ((error: LinkError) => void) | undefined;
  /** Whether plans may be kept on the server: not where a pooler hands each transaction to another session. */
  prepare = true;

  constructor(wire: Wire, clock: Clock) {
    this.#wire = wire;
    this.#clock = clock;
  }

  get open(): boolean {
    return this.#ended === undefined;
  }

  get pid(): number {
    return this.#wire.pid;
  }

  /** One statement, by itself a transaction. Rejects with the server's complaint, or with a LinkError. */
  async run(call: Call, dueAt: number): Promise<readonly string[]> {
    return await this.#watched(dueAt, async () => this.#wire.run(call, this.prepare));
  }

  /** Several statements in one message. The rows of all. */
  async script(text: string, dueAt: number): Promise<readonly string[]> {
    return await this.#watched(dueAt, async () => this.#wire.script(text));
  }

  async listen(
    channel: string,
    onMessage: (payload: string) => void,
    dueAt: number,
  ): Promise<void> {
    await this.#watched(dueAt, async () => this.#wire.listen(channel, onMessage));
  }

  /** Ends it, and fails what is under way. */
  end(error: LinkError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#wire.destroy();
    this.#fail?.(error);
  }

  async #watched<T>(dueAt: number, send: () => Promise<T>): Promise<T> {
    if (this.#ended !== undefined)
      throw new LinkError("the session with PostgreSQL has ended", {
        sent: false,
        cause: this.#ended,
      });
    return await new Promise<T>((resolve, reject) => {
      this.#fail = reject;
      const left = Math.max(0, dueAt - this.#clock.mono());
      const timer = this.#clock.timer(left, () => {
        this.end(new LinkError("PostgreSQL did not answer in time", { sent: true, late: true }));
      });
      const settled = (): void => {
        timer.cancel();
        this.#fail = undefined;
      };
      send().then(
        (value) => {
          settled();
          resolve(value);
        },
        (error: unknown) => {
          settled();
          const known = sqlState(error) !== undefined;
          if (!known || endsSession(error)) this.end(lost(error));
          reject(known ? (error as Error) : (this.#ended ?? lost(error)));
        },
      );
    });
  }
}

function lost(cause: unknown): LinkError {
  return new LinkError("the session with PostgreSQL was lost", { sent: true, cause });
}

/** Makes one session, within a limit that is not the client library's. `onEnd` is called when it ends by itself. */
export async function dial(
  dialer: Dialer,
  clock: Clock,
  onEnd: () => void = () => undefined,
): Promise<Connection> {
  let connection: Connection | undefined;
  let timer: Timer | undefined;
  let abandoned = false;
  let ended: LinkError | undefined;
  const dialing = dialer.dial((cause) => {
    ended = new LinkError("the session with PostgreSQL has ended", { sent: true, cause });
    connection?.end(ended);
    onEnd();
  });
  try {
    const wire = await new Promise<Wire>((resolve, reject) => {
      timer = clock.timer(2 * CONNECT_TIMEOUT_MS, () => {
        abandoned = true;
        reject(new Error("no session in time"));
      });
      dialing.then((made) => {
        if (abandoned) made.destroy();
        resolve(made);
      }, reject);
    });
    connection = new Connection(wire, clock);
    if (ended !== undefined) connection.end(ended);
    return connection;
  } catch (cause) {
    throw new LinkError(`PostgreSQL could not be reached: ${reasonOf(cause)}`, {
      sent: false,
      cause,
    });
  } finally {
    timer?.cancel();
  }
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "no reason was given";
  // Node's error for a name with several addresses has no text of its own.
  const [first] = cause instanceof AggregateError ? (cause.errors as unknown[]) : [];
  return cause.message === "" && first instanceof Error ? first.message : cause.message;
}
