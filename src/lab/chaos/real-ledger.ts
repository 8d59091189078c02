import { postgresClient } from "../../connect/postgres.ts";
import type { Dialer, Wire } from "../../drivers/postgres/client.ts";
import { dialerOf } from "../../drivers/postgres/client.ts";
import type { PgPool } from "../../guards/postgres/index.ts";
import type { ClientProcess } from "../clients/client.ts";
import type { LedgerPlace } from "../workloads/ledger.ts";

/** Sessions with a real PostgreSQL, connected when they are first used. */
export function realDialer(url: string): Dialer {
  return {
    dial: async (onEnd) => {
      const dialer = await dialerOf(await postgresClient(url))();
      return await dialer.dial(onEnd);
    },
  };
}

/** What a client process has of a real PostgreSQL. */
export class RealLedger implements LedgerPlace {
  readonly #url: string;
  readonly #stop: (ms: number) => Promise<void>;

  /** `stop`: has this process stopped for so long; resolves when it goes on. */
  constructor(url: string, stop: (ms: number) => Promise<void>) {
    this.#url = url;
    this.#stop = stop;
  }

  async dial(): Promise<Wire> {
    return await realDialer(this.#url).dial(() => undefined);
  }

  async pool(): Promise<PgPool> {
    const found: unknown = await postgresClient(this.#url);
    const pool = found as PgPool & { on(event: "error", listener: () => void): void };
    // An idle session that ends says so to nobody.
    pool.on("error", () => undefined);
    return pool;
  }

  async stop(_client: ClientProcess, ms: number): Promise<void> {
    await this.#stop(ms);
  }
}
