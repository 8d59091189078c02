import type { Clock, Timer } from "../../core/clock.ts";
import { LinkError } from "./link-error.ts";

/** How long a session may take to come about. */
export const CONNECT_TIMEOUT_MS = 5000;
/** A peer that vanished without a word is noticed by TCP after this silence, also where nothing is asked of it. */
export const KEEPALIVE_MS = 10_000;

/** What a session must know of its server. */
export interface Server {
  /** What people call it: "PostgreSQL". */
  readonly database: string;
  /** Whether an error is a complaint of the server, which answered. */
  readonly said: (error: unknown) => boolean;
  /** Whether the session has ended with this complaint. */
  readonly ends: (complaint: unknown) => boolean;
}

/** One session with a watch: a statement that is overdue ends it, since it may still be applied. It is never used again. */
export class Session {
  readonly #wire: { destroy(): void };
  readonly #clock: Clock;
  readonly #server: Server;
  #ended: LinkError | undefined;
  #fail: ((error: LinkError) => void) | undefined;

  constructor(wire: { destroy(): void }, clock: Clock, server: Server) {
    this.#wire = wire;
    this.#clock = clock;
    this.#server = server;
  }

  get open(): boolean {
    return this.#ended === undefined;
  }

  /** Ends it, and fails what is under way. */
  end(error: LinkError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#wire.destroy();
    this.#fail?.(error);
  }

  /** One request. Rejects with the server's complaint, or with a LinkError. */
  protected async watched<T>(dueAt: number, send: () => Promise<T>): Promise<T> {
    const { database, said, ends } = this.#server;
    if (this.#ended !== undefined)
      throw new LinkError(`the session with ${database} has ended`, {
        sent: false,
        cause: this.#ended,
      });
    return await new Promise<T>((resolve, reject) => {
      const left = Math.max(0, dueAt - this.#clock.mono());
      // Not every client library tells what is under way that its session was destroyed.
      this.#fail = (error) => {
        timer.cancel();
        reject(error);
      };
      const timer = this.#clock.timer(left, () => {
        this.end(new LinkError(`${database} did not answer in time`, { sent: true, late: true }));
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
          const known = said(error);
          if (!known || ends(error)) this.end(this.#lost(error));
          reject(known ? (error as Error) : (this.#ended ?? this.#lost(error)));
        },
      );
    });
  }

  #lost(cause: unknown): LinkError {
    return new LinkError(`the session with ${this.#server.database} was lost`, {
      sent: true,
      cause,
    });
  }
}

/** How one session comes about. */
export interface Dialling<W, S> {
  readonly database: string;
  readonly clock: Clock;
  /** Makes the wire. `onEnd` is called once, when it has ended for whatever reason. Rejects with the cause. */
  readonly dial: (onEnd: (cause: unknown) => void) => Promise<W>;
  readonly session: (wire: W) => S;
  /** It ended by itself. */
  readonly onEnd?: () => void;
}

/** Makes one session, within a limit that is not the client library's. */
export async function dialled<W extends { destroy(): void }, S extends Session>(
  how: Dialling<W, S>,
): Promise<S> {
  const { database, clock } = how;
  let session: S | undefined;
  let timer: Timer | undefined;
  let abandoned = false;
  let ended: LinkError | undefined;
  const dialling = how.dial((cause) => {
    ended = new LinkError(`the session with ${database} has ended`, { sent: true, cause });
    session?.end(ended);
    how.onEnd?.();
  });
  try {
    const wire = await new Promise<W>((resolve, reject) => {
      timer = clock.timer(2 * CONNECT_TIMEOUT_MS, () => {
        abandoned = true;
        reject(new Error("no session in time"));
      });
      dialling.then((made) => {
        if (abandoned) made.destroy();
        resolve(made);
      }, reject);
    });
    session = how.session(wire);
    if (ended !== undefined) session.end(ended);
    return session;
  } catch (cause) {
    throw new LinkError(`${database} could not be reached: ${reasonOf(cause)}`, {
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
