import { join } from "node:path";
import type { Framing } from "./framing.ts";
import type { PostgresServers } from "./postgres-arm.ts";
import { Proxy } from "./proxy.ts";
import { WallClock } from "./wall-clock.ts";

/** What an arm is set up with. */
export interface How {
  readonly folder: string;
  /** Ringfence's store, in scenarios that are not about another one. */
  readonly store: "redis" | "sqlite" | "postgres";
  /** What moves wall clocks, where it could be compiled. */
  readonly shim: string | undefined;
  readonly postgres: PostgresServers;
}

/** What is started for one arm, and ended with it. */
export class Parts {
  readonly how: How;
  readonly #clocks = new Map<string, WallClock>();
  readonly #ways = new Map<string, Proxy>();
  readonly #moves: boolean;
  readonly #undo: (() => Promise<void>)[] = [];

  constructor(how: How, moves: boolean) {
    this.how = how;
    this.#moves = moves;
  }

  /** By process or server, where wall clocks are moved. */
  get clocks(): ReadonlyMap<string, WallClock> {
    return this.#clocks;
  }

  /** By `client>server`. */
  get ways(): ReadonlyMap<string, Proxy> {
    return this.#ways;
  }

  /** A way to a port, of which the port is returned at which it begins. */
  async lead(name: string, port: number, framing: () => Framing): Promise<number> {
    const proxy = await Proxy.to(port, framing);
    this.#ways.set(name, proxy);
    this.atEnd(async () => proxy.close());
    return proxy.port;
  }

  clockOf(name: string): WallClock | undefined {
    if (!this.#moves || this.how.shim === undefined) return undefined;
    const clock = new WallClock(this.how.shim, join(this.how.folder, `${name}.clock`));
    this.#clocks.set(name, clock);
    return clock;
  }

  atEnd(step: () => Promise<void>): void {
    this.#undo.push(step);
  }

  /** Newest first: clients before the servers that they use. */
  async close(): Promise<void> {
    for (const step of this.#undo.splice(0).reverse()) await step();
  }
}
