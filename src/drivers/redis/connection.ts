import { createHash } from "node:crypto";
import type { Clock, Timer } from "../../core/clock.ts";
import {
  type Address,
  CONNECT_TIMEOUT_MS,
  type Dialer,
  type Outcome,
  type Wire,
} from "./client.ts";
import { bare, codeOf, LinkError } from "./errors.ts";
import type { Statement } from "./scripts.ts";

/** One run of a script. */
export interface Call {
  readonly statement: Statement;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** A Cluster server that is taking over the slot must be told that we know. */
  readonly asking?: boolean;
}

/** Who sent a command, and hears of one of the two, once. */
export interface Asker {
  /** Time of the connection's clock after which the command is overdue. */
  readonly dueAt: number;
  answered(reply: unknown): void;
  /** With an error reply, or with a LinkError. */
  failed(error: unknown): void;
}

const hashes = new Map<string, string>();

function hashOf({ text }: Statement): string {
  let hash = hashes.get(text);
  if (hash === undefined) {
    hash = createHash("sha1").update(text).digest("hex");
    hashes.set(text, hash);
  }
  return hash;
}

/** In small letters: one library asks for them several times. */
function command(call: Call, whole: boolean): string[] {
  const { statement, keys, args } = call;
  return whole
    ? ["eval", statement.text, String(keys.length), ...keys, ...args]
    : ["evalsha", hashOf(statement), String(keys.length), ...keys, ...args];
}

/**
 * One connection with a watch: a command that is overdue ends the connection and all that is under way on it, since
 * replies come in order and what was sent may still be applied. It is never used again.
 */
export class Connection {
  readonly #wire: Wire;
  readonly #clock: Clock;
  readonly #refused: (error: unknown) => void;
  readonly #pending = new Set<Asker>();
  #ended: LinkError | undefined;
  #retired = false;
  #watch: Timer | undefined;
  #watchAt = Number.POSITIVE_INFINITY;

  /** `refused` hears of every error reply. */
  constructor(wire: Wire, clock: Clock, refused: (error: unknown) => void = () => undefined) {
    this.#wire = wire;
    this.#clock = clock;
    this.#refused = refused;
  }

  get open(): boolean {
    return this.#ended === undefined && !this.#retired;
  }

  /** It is open, and no reply is waited for. */
  get idle(): boolean {
    return this.open && this.#pending.size === 0;
  }

  /** One command. Rejects with an error reply, or with a LinkError. */
  async send(args: readonly string[], dueAt: number): Promise<unknown> {
    return await this.#watched(dueAt, async () => this.#wire.send(args));
  }

  /**
   * One script; by its text where the server does not know it. No promise of its own: nearly every step takes this way.
   * `alone`: it need not wait for other commands of this turn of the event loop.
   */
  ask(call: Call, asker: Asker, alone = false): void {
    if (!this.#begin(asker)) return;
    this.#send(command(call, false), alone).then(
      (reply) => {
        this.#answered(asker, reply);
      },
      (error: unknown) => {
        // Nothing was run, so sending it again cannot apply it twice.
        if (codeOf(error) === "NOSCRIPT" && this.#ended === undefined)
          this.#hear(asker, this.#send(command(call, true), false));
        else this.#failed(asker, error);
      },
    );
  }

  /** A library that throws instead of rejecting is heard all the same. */
  #send(words: readonly string[], alone: boolean): PromiseLike<unknown> {
    try {
      return this.#wire.send(words, alone);
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Several scripts in one write. Rejects only as a whole, with a LinkError. */
  async runAll(calls: readonly Call[], dueAt: number): Promise<readonly Outcome[]> {
    const outcomes = [...(await this.#sendAll(calls, false, dueAt))];
    const unknown = outcomes.flatMap((outcome, i) =>
      !outcome.ok && codeOf(outcome.error) === "NOSCRIPT" ? [i] : [],
    );
    if (unknown.length === 0) return outcomes;
    const again = calls.filter((_, i) => unknown.includes(i));
    const replies = await this.#sendAll(again, true, dueAt);
    for (const [k, i] of unknown.entries()) {
      const reply = replies[k];
      if (reply !== undefined) outcomes[i] = reply;
    }
    return outcomes;
  }

  async subscribe(
    channel: string,
    onMessage: (message: string) => void,
    dueAt: number,
  ): Promise<void> {
    await this.#watched(dueAt, async () => this.#wire.subscribe(channel, onMessage));
  }

  /** Ends it as soon as nothing is under way: it leads to the wrong server. */
  retire(): void {
    this.#retired = true;
    if (this.#pending.size === 0)
      this.end(new LinkError("the connection to Redis was given up", { sent: false }));
  }

  /** Ends it, and fails whatever is under way. */
  end(error: LinkError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#watch?.cancel();
    this.#wire.destroy();
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const asker of pending) asker.failed(error);
  }

  async #sendAll(
    calls: readonly Call[],
    whole: boolean,
    dueAt: number,
  ): Promise<readonly Outcome[]> {
    const batch = calls.flatMap((call) =>
      call.asking === true ? [["ASKING"], command(call, whole)] : [command(call, whole)],
    );
    const replies = await this.#watched(dueAt, async () => this.#wire.sendAll(batch));
    let at = 0;
    return calls.map((call) => {
      if (call.asking === true) at += 1;
      const reply = replies[at];
      at += 1;
      if (reply === undefined || (!reply.ok && codeOf(reply.error) === undefined))
        return { ok: false, error: this.#lost(reply?.error) };
      if (reply.ok) return reply;
      this.#refused(reply.error);
      return { ok: false, error: bare(reply.error) };
    });
  }

  /** Watches over what `send` sends. */
  async #watched<T>(dueAt: number, send: () => PromiseLike<T>): Promise<T> {
    return await new Promise<T>((resolve, failed) => {
      const asker = { dueAt, answered: resolve as (reply: unknown) => void, failed };
      if (this.#begin(asker)) this.#hear(asker, send());
    });
  }

  #hear(asker: Asker, replying: PromiseLike<unknown>): void {
    replying.then(
      (reply) => {
        this.#answered(asker, reply);
      },
      (error: unknown) => {
        this.#failed(asker, error);
      },
    );
  }

  /** Whether its command may be sent. */
  #begin(asker: Asker): boolean {
    if (this.#ended !== undefined) {
      const facts = { sent: false, cause: this.#ended };
      asker.failed(new LinkError("the connection to Redis has ended", facts));
      return false;
    }
    this.#pending.add(asker);
    if (asker.dueAt < this.#watchAt) this.#watchUntil(asker.dueAt);
    return true;
  }

  #answered(asker: Asker, reply: unknown): void {
    if (this.#settled(asker)) asker.answered(reply);
  }

  #failed(asker: Asker, error: unknown): void {
    if (!this.#settled(asker)) return;
    if (codeOf(error) === undefined) asker.failed(this.#lost(error));
    else {
      this.#refused(error);
      asker.failed(bare(error));
    }
  }

  /** Whether it has not heard yet. */
  #settled(asker: Asker): boolean {
    const waited = this.#pending.delete(asker);
    if (this.#retired) this.retire();
    return waited;
  }

  #lost(cause: unknown): LinkError {
    return this.#ended ?? new LinkError("the connection to Redis was lost", { sent: true, cause });
  }

  /** One timer for all commands, set for the earliest; it is not moved when that one is answered. */
  #watchUntil(dueAt: number): void {
    this.#watch?.cancel();
    this.#watchAt = dueAt;
    this.#watch = this.#clock.timer(Math.max(0, dueAt - this.#clock.mono()), () => {
      this.#watchAt = Number.POSITIVE_INFINITY;
      const now = this.#clock.mono();
      let next = Number.POSITIVE_INFINITY;
      for (const pending of this.#pending) next = Math.min(next, pending.dueAt);
      if (next <= now)
        this.end(new LinkError("Redis did not answer in time", { sent: true, late: true }));
      else if (next !== Number.POSITIVE_INFINITY) this.#watchUntil(next);
    });
  }
}

/** A place for one connection at a time: it is made at the first use, and again after it ended. */
export class Lane {
  readonly #dialer: Dialer;
  readonly #clock: Clock;
  readonly #address: Address | null;
  readonly #refused: (error: unknown) => void;
  #dialing: Promise<Connection> | undefined;
  #connection: Connection | undefined;
  #closed = false;

  /** `refused` hears of every error reply. */
  constructor(
    dialer: Dialer,
    clock: Clock,
    address: Address | null,
    refused: (error: unknown) => void,
  ) {
    this.#dialer = dialer;
    this.#clock = clock;
    this.#address = address;
    this.#refused = refused;
  }

  /** The open connection, if there is one. */
  get open(): Connection | undefined {
    return this.#connection?.open === true ? this.#connection : undefined;
  }

  /**
   * The open connection, or a new one.
   * @throws LinkError that says that nothing was sent: it could not be made, or not before `dueAt`
   */
  async connection(dueAt: number): Promise<Connection> {
    if (this.#connection?.open === true) return this.#connection;
    if (this.#closed) throw new LinkError("the connection to Redis was closed", { sent: false });
    this.#dialing ??= this.#dial().finally(() => {
      this.#dialing = undefined;
    });
    const connection = await this.#dialing;
    // Whoever waited too long for it has given up: what is sent now would be a ghost.
    if (this.#clock.mono() >= dueAt)
      throw new LinkError("Redis could not be reached in time", { sent: false, late: true });
    return connection;
  }

  /** The next use makes another connection. */
  retire(): void {
    this.#connection?.retire();
    this.#connection = undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    // What is being connected is ended as soon as it is there; nobody need wait for that.
    const closed = new LinkError("the connection to Redis was closed", { sent: true });
    this.#connection?.end(closed);
    const dialed = await this.#dialing?.catch(() => undefined);
    dialed?.end(closed);
  }

  async #dial(): Promise<Connection> {
    let connection: Connection | undefined;
    let timer: Timer | undefined;
    let abandoned = false;
    let ended: LinkError | undefined;
    const dialing = this.#dialer.dial(this.#address, (cause) => {
      ended = new LinkError("the connection to Redis has ended", { sent: true, cause });
      connection?.end(ended);
    });
    try {
      const wire = await new Promise<Wire>((resolve, reject) => {
        // Sentinels and the handshake of a silent server are not bounded by the client's own limits.
        timer = this.#clock.timer(2 * CONNECT_TIMEOUT_MS, () => {
          abandoned = true;
          reject(new Error("no connection in time"));
        });
        dialing.then((made) => {
          if (abandoned) made.destroy();
          resolve(made);
        }, reject);
      });
      connection = new Connection(wire, this.#clock, this.#refused);
      if (ended !== undefined) connection.end(ended);
      this.#connection = connection;
      return connection;
    } catch (cause) {
      throw new LinkError(`Redis could not be reached: ${reasonOf(cause)}`, { sent: false, cause });
    } finally {
      timer?.cancel();
    }
  }
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "no reason was given";
  // Node's error for a name with several addresses has no text of its own.
  const [first] = cause instanceof AggregateError ? (cause.errors as unknown[]) : [];
  return cause.message === "" && first instanceof Error ? first.message : cause.message;
}
