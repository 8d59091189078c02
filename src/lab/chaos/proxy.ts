import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { systemClock } from "../../runtime/system-clock.ts";
import type { Framed, Framing } from "./framing.ts";

/** What one direction of a way does to messages. */
export interface Gate {
  /** Nothing gets through any more, and nobody is told: not even that the other side has ended. */
  cut: boolean;
  /** Keeps the messages for which it is true, and what is behind them on their connection. */
  hold: ((message: Framed) => boolean) | null;
  /** Loses the messages for which it is true. */
  dropIf: ((message: Framed) => boolean) | null;
  delayMs: number;
  /** The connection is silent once it has carried so many bytes. */
  cutAfterBytes: number;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  readonly framing: Framing;
  /** A stream cannot lose a message and go on: what lost one carries nothing any more, either way. */
  silent: boolean;
  readonly bytes: Record<Direction, number>;
  readonly tail: Record<Direction, Promise<void>>;
}

/** `up`: from client to server. */
type Direction = "up" | "down";

/**
 * A way between one client and one server that can be disturbed message by message: delayed, dropped, cut in one
 * direction or both, silent after some bytes, a message held back and let go. It needs no special rights.
 */
export class Proxy {
  readonly port: number;
  readonly up: Gate = openGate();
  readonly down: Gate = openGate();
  readonly #listener: Server;
  readonly #framing: () => Framing;
  readonly #pairs = new Set<Pair>();
  readonly #held: Record<Direction, (() => void)[]> = { up: [], down: [] };
  #target: number | string;

  private constructor(listener: Server, target: number | string, framing: () => Framing) {
    this.#listener = listener;
    this.port = (listener.address() as AddressInfo).port;
    this.#target = target;
    this.#framing = framing;
    listener.on("connection", (client: Socket) => {
      this.#join(client);
    });
  }

  /** `target`: a port of this host, or the path of a socket. */
  static async to(target: number | string, framing: () => Framing): Promise<Proxy> {
    const listener = createServer();
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    return new Proxy(listener, target, framing);
  }

  /** How many connections have ended on one side only. */
  get halves(): number {
    return [...this.#pairs].filter(({ client, server }) => client.closed !== server.closed).length;
  }

  /** New connections lead elsewhere, and those that there are end: an address moved to another server. */
  retarget(port: number): void {
    this.#target = port;
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
  }

  /** Lets go of what one direction keeps, oldest first, and keeps nothing more. */
  release(direction: Direction): void {
    this[direction].hold = null;
    for (const go of this.#held[direction].splice(0)) go();
  }

  async close(): Promise<void> {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    await new Promise<void>((resolve) => {
      this.#listener.close(() => {
        resolve();
      });
    });
  }

  #join(client: Socket): void {
    const target = this.#target;
    const server = typeof target === "number" ? connect(target, "127.0.0.1") : connect(target);
    const pair: Pair = {
      client,
      server,
      framing: this.#framing(),
      silent: false,
      bytes: { up: 0, down: 0 },
      tail: { up: Promise.resolve(), down: Promise.resolve() },
    };
    this.#pairs.add(pair);
    for (const [socket, direction] of [
      [client, "up"],
      [server, "down"],
    ] as const) {
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#end(pair, direction);
      });
    }
    client.on("data", (data: Buffer) => {
      for (const message of pair.framing.up(data)) this.#carry(pair, "up", message);
    });
    server.on("data", (data: Buffer) => {
      for (const message of pair.framing.down(data)) this.#carry(pair, "down", message);
    });
  }

  /** One side has ended: the other one is told, unless that is cut off. */
  #end(pair: Pair, direction: Direction): void {
    const { client, server } = pair;
    if (client.closed && server.closed) this.#pairs.delete(pair);
    // What is kept must still arrive when it is let go, so the far side ends behind it.
    void pair.tail[direction].then(() => {
      if (this[direction].cut) return;
      if (direction === "up") server.end();
      else client.destroy();
    });
  }

  #carry(pair: Pair, direction: Direction, message: Framed): void {
    const gate = this[direction];
    pair.bytes[direction] += message.data.length;
    if (gate.cut || gate.dropIf?.(message) === true) pair.silent = true;
    if (pair.bytes[direction] > gate.cutAfterBytes) pair.silent = true;
    if (pair.silent) return;
    const to = direction === "up" ? pair.server : pair.client;
    let pause: Promise<void> | undefined;
    if (gate.hold?.(message) === true)
      pause = new Promise((resolve) => this.#held[direction].push(resolve));
    else if (gate.delayMs > 0)
      pause = new Promise((resolve) => void systemClock.timer(gate.delayMs, resolve, true));
    pair.tail[direction] = pair.tail[direction]
      .then(async () => pause)
      .then(() => {
        if (!to.destroyed && to.writable) to.write(message.data);
      });
  }
}

function openGate(): Gate {
  return { cut: false, hold: null, dropIf: null, delayMs: 0, cutAfterBytes: Infinity };
}
