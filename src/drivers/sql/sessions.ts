import type { Clock } from "../../core/clock.ts";
import { LinkError } from "./link-error.ts";
import { CONNECT_TIMEOUT_MS, type Session } from "./session.ts";

/** What a new session is told and asked before it is used. */
export type Greeting<S extends Session> = (session: S, dueAt: number) => Promise<void>;

/** How long no further session is tried for once one was refused while there are others, in milliseconds. */
const ENOUGH_MS = 1000;

/** Somebody who waits for a session. */
interface Waiting<S> {
  readonly take: (connection: S) => void;
  readonly fail: (error: Error) => void;
}

/**
 * A few sessions of our own, made when they are needed: one step has one to itself. Renewals go first, since a lease
 * hangs on each. Where the server has no room for another, those that there are have to do.
 */
export class Sessions<S extends Session> {
  readonly #database: string;
  readonly #dial: () => Promise<S>;
  readonly #clock: Clock;
  readonly #max: number;
  readonly #greet: Greeting<S>;
  readonly #idle: S[] = [];
  readonly #all = new Set<S>();
  readonly #urgent: Waiting<S>[] = [];
  readonly #waiting: Waiting<S>[] = [];
  #making = 0;
  /** Before this moment those that there are have to do, and why. */
  #enough = { until: Number.NEGATIVE_INFINITY, because: "" };
  #closed = false;

  constructor(parts: {
    /** What people call the server: "PostgreSQL". */
    readonly database: string;
    readonly dial: () => Promise<S>;
    readonly clock: Clock;
    readonly max: number;
    readonly greet: Greeting<S>;
  }) {
    this.#database = parts.database;
    this.#dial = parts.dial;
    this.#clock = parts.clock;
    this.#max = parts.max;
    this.#greet = parts.greet;
  }

  /**
   * Runs `step` with a session.
   * @throws LinkError that says that nothing was sent, when none is to be had before `dueAt`
   */
  async use<T>(dueAt: number, step: (connection: S) => Promise<T>, urgent = false): Promise<T> {
    const connection = this.#spare() ?? (await this.#wait(dueAt, urgent));
    try {
      return await step(connection);
    } finally {
      this.#give(connection);
    }
  }

  close(): void {
    this.#closed = true;
    const closed = new LinkError(`the session with ${this.#database} was closed`, { sent: true });
    for (const connection of this.#all) connection.end(closed);
    this.#all.clear();
    const refused = new LinkError("the driver was closed", { sent: false });
    for (const { fail } of [...this.#urgent.splice(0), ...this.#waiting.splice(0)]) fail(refused);
  }

  /** A session that nobody uses; those that ended meanwhile are forgotten. */
  #spare(): S | undefined {
    for (let found = this.#idle.pop(); found !== undefined; found = this.#idle.pop()) {
      if (found.open) return found;
      this.#all.delete(found);
    }
    return undefined;
  }

  async #wait(dueAt: number, urgent: boolean): Promise<S> {
    if (this.#closed) throw new LinkError("the driver was closed", { sent: false });
    return await new Promise<S>((resolve, reject) => {
      const queue = urgent ? this.#urgent : this.#waiting;
      const timer = this.#clock.timer(Math.max(0, dueAt - this.#clock.mono()), () => {
        queue.splice(queue.indexOf(waiting), 1);
        const { until, because } = this.#enough;
        const why = this.#clock.mono() < until ? `, and there is no other: ${because}` : "";
        const text = `no session with ${this.#database} was to be had in time${why}`;
        reject(new LinkError(text, { sent: false, late: true }));
      });
      const waiting: Waiting<S> = {
        take: (connection) => {
          timer.cancel();
          resolve(connection);
        },
        fail: (error) => {
          timer.cancel();
          reject(error);
        },
      };
      queue.push(waiting);
      this.#grow();
    });
  }

  #grow(): void {
    if (this.#all.size > 0 && this.#clock.mono() < this.#enough.until) return;
    const wanted = this.#urgent.length + this.#waiting.length;
    if (wanted > this.#making && this.#all.size + this.#making < this.#max) void this.#make();
  }

  /** Never rejects: who waits longest is told. */
  async #make(): Promise<void> {
    this.#making += 1;
    try {
      const connection = await this.#dial();
      if (this.#closed) {
        connection.end(new LinkError("the driver was closed", { sent: false }));
        return;
      }
      this.#all.add(connection);
      try {
        await this.#greet(connection, this.#clock.mono() + CONNECT_TIMEOUT_MS);
      } catch (error) {
        this.#all.delete(connection);
        const cause = new LinkError("the session could not be set up", { sent: false });
        connection.end(cause);
        throw error;
      }
      this.#making -= 1;
      this.#give(connection);
    } catch (error) {
      this.#making -= 1;
      // The others will be given back, and whoever waits has time until its step is due.
      if (this.#all.size > 0) {
        const because = error instanceof Error ? error.message : "";
        this.#enough = { until: this.#clock.mono() + ENOUGH_MS, because };
        return;
      }
      this.#next()?.fail(notSent(error) as Error);
      this.#grow();
    }
  }

  #next(): Waiting<S> | undefined {
    return this.#urgent.shift() ?? this.#waiting.shift();
  }

  #give(connection: S): void {
    if (!connection.open) {
      this.#all.delete(connection);
      this.#grow();
      return;
    }
    const next = this.#next();
    if (next === undefined) this.#idle.push(connection);
    else next.take(connection);
  }
}

/** Whatever failed while a session was set up, no step of ours had begun. */
function notSent(error: unknown): unknown {
  if (!(error instanceof LinkError) || !error.sent) return error;
  return new LinkError(error.message, { sent: false, late: error.late, cause: error });
}
