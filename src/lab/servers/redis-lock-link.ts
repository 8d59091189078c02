import type { Dialer, Outcome, Wire } from "../../drivers/redis/client.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import { commandName } from "./redis-words.ts";

/** A connection as the server knows it. */
export interface Session {
  readonly client: SimProcess;
  /** The process that it is with: another one resets it. */
  readonly server: SimProcess;
  /** Sends a message of the channel that it listens to. */
  readonly wake: (message: string) => void;
  /** Says that the connection is no more. */
  readonly reset: () => void;
}

/** A server as a connection reaches it. */
export interface Host {
  readonly process: SimProcess;
  accept(session: Session): void;
  /** Whether it knows this connection. */
  knows(session: Session): boolean;
  /** Answers each command of a connection in the order in which they came. */
  answer(session: Session, command: readonly string[]): unknown;
  listen(session: Session, channel: string): void;
}

/**
 * One direction of a connection: what is sent arrives in that order or not at all. After a message that was lost comes
 * nothing any more, as on a line whose packets vanish; a second delivery is not seen.
 */
class Stream {
  readonly #send: (label: string, deliver: () => void) => void;
  readonly #early = new Map<number, () => void>();
  #sent = 0;
  #next = 0;

  constructor(send: (label: string, deliver: () => void) => void) {
    this.#send = send;
  }

  send(label: string, deliver: () => void): void {
    const number = this.#sent;
    this.#sent += 1;
    this.#send(label, () => {
      if (number < this.#next) return;
      this.#early.set(number, deliver);
      for (let next = this.#early.get(this.#next); next !== undefined; ) {
        this.#early.delete(this.#next);
        this.#next += 1;
        next();
        next = this.#early.get(this.#next);
      }
    });
  }
}

/** How long until a connection that nobody answers is asked for once more, and until it is given up. */
const DIAL_AGAIN_MS = 1000;
const DIAL_MS = 5000;

/** Connections of one process to whichever server leads at the moment. Client libraries are not modelled. */
export function simDialer(world: World, client: SimProcess, leader: () => Host): Dialer {
  return {
    keyPrefix: "",
    cluster: false,
    seeds: async () => [],
    map: (address) => address,
    dial: async (_address, onEnd) =>
      new Promise((resolve, reject) => {
        let [asked, over] = [0, false];
        const ask = (): void => {
          if (over) return;
          if (asked * DIAL_AGAIN_MS >= DIAL_MS) {
            over = true;
            reject(new Error("connect ETIMEDOUT"));
            return;
          }
          asked += 1;
          const timer = client.clock.timer(DIAL_AGAIN_MS, ask);
          // Whoever leads now: a library asks its Sentinels anew.
          const wire = new SimWire(world, client, leader(), onEnd);
          wire.connect(() => {
            if (over) return;
            over = true;
            timer.cancel();
            resolve(wire);
          });
        };
        ask();
      }),
    close: async () => undefined,
  };
}

/** The client's side of a connection. */
class SimWire implements Wire {
  readonly #world: World;
  readonly #client: SimProcess;
  readonly #host: Host;
  readonly #onEnd: (cause: unknown) => void;
  readonly #up: Stream;
  readonly #down: Stream;
  readonly #pending = new Set<(error: Error) => void>();
  #session: Session | undefined;
  #onMessage: ((message: string) => void) | undefined;
  #ended = false;

  constructor(world: World, client: SimProcess, host: Host, onEnd: (cause: unknown) => void) {
    this.#world = world;
    this.#client = client;
    this.#host = host;
    this.#onEnd = onEnd;
    const { net } = world;
    this.#up = new Stream((label, deliver) => {
      const arrive = (): void => {
        this.#arrive(deliver);
      };
      net.send({ from: client, to: host.process, label, deliver: arrive });
    });
    this.#down = new Stream((label, deliver) => {
      const from = this.#session?.server ?? host.process;
      net.send({ from, to: client, label, deliver });
    });
  }

  /** Asks for the connection. */
  connect(made: () => void): void {
    const { net } = this.#world;
    const server = this.#host.process;
    const deliver = (): void => {
      if (this.#session === undefined) this.#accept(server);
      net.send({ from: server, to: this.#client, label: "connect reply", deliver: made });
    };
    net.send({ from: this.#client, to: server, label: "connect", deliver });
  }

  #accept(server: SimProcess): void {
    this.#session = {
      client: this.#client,
      server,
      wake: (message) => {
        this.#down.send("wake", () => this.#onMessage?.(message));
      },
      reset: () => {
        this.#reset(server);
      },
    };
    this.#host.accept(this.#session);
  }

  async send(args: readonly string[]): Promise<unknown> {
    const label = commandName(args);
    return await new Promise((resolve, reject) => {
      if (this.#ended) {
        reject(new Error("Connection is closed."));
        return;
      }
      this.#pending.add(reject);
      this.#up.send(label, () => {
        const session = this.#session;
        if (session === undefined) return;
        const answered = (settle: () => void): void => {
          this.#down.send(`${label} reply`, () => {
            this.#pending.delete(reject);
            settle();
          });
        };
        const failed = (error: unknown): void => {
          answered(() => {
            reject(error instanceof Error ? error : new Error(String(error)));
          });
        };
        const answer = this.#host.answer(session, args);
        if (!(answer instanceof Promise)) {
          if (answer instanceof Error) failed(answer);
          else
            answered(() => {
              resolve(answer);
            });
          return;
        }
        answer.then((value) => {
          answered(() => {
            resolve(value);
          });
        }, failed);
      });
    });
  }

  async sendAll(batch: readonly (readonly string[])[]): Promise<readonly Outcome[]> {
    return await Promise.all(
      batch.map(async (args) =>
        this.send(args).then(
          (value): Outcome => ({ ok: true, value }),
          (error: unknown): Outcome => ({ ok: false, error }),
        ),
      ),
    );
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#onMessage = onMessage;
    await new Promise<void>((resolve, reject) => {
      this.#pending.add(reject);
      this.#up.send("SUBSCRIBE", () => {
        if (this.#session !== undefined) this.#host.listen(this.#session, channel);
        this.#down.send("SUBSCRIBE reply", () => {
          this.#pending.delete(reject);
          resolve();
        });
      });
    });
  }

  /** What was sent before may still arrive. */
  destroy(): void {
    this.#end(new Error("Connection is closed."));
  }

  #arrive(deliver: () => void): void {
    const session = this.#session;
    if (session === undefined || this.#host.knows(session)) deliver();
    else this.#reset(this.#host.process);
  }

  #reset(from: SimProcess): void {
    const deliver = (): void => {
      this.#end(new Error("read ECONNRESET"));
    };
    this.#world.net.send({ from, to: this.#client, label: "reset", deliver });
  }

  #end(cause: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const fail of this.#pending) fail(cause);
    this.#pending.clear();
    this.#onEnd(cause);
  }
}
