import type { Clock } from "../../core/clock.ts";
import type { Outcome } from "./client.ts";
import type { Call, Connection, Lane } from "./connection.ts";
import { LinkError } from "./errors.ts";

/** How many replicas must have a grant before it counts. */
export interface ReplicaRule {
  /** At least so many, */
  readonly needed: number;
  /** and every one that is connected as well. */
  readonly all: boolean;
  /** How long they have, in milliseconds; a shorter limit of the call itself comes first. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** The server granted or renewed, but too few replicas said that they have it. */
export class NotReplicatedError extends Error {
  override readonly name: string = "NotReplicatedError";
  readonly got: number;
  readonly needed: number;
  constructor(got: number, needed: number) {
    super(`${got} of ${needed} replicas acknowledged in time`);
    this.got = got;
    this.needed = needed;
  }
}

/** Calls of one caller, waiting for their round. */
interface Order {
  readonly calls: readonly Call[];
  readonly dueAt: number;
  readonly resolve: (outcomes: readonly Outcome[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Runs scripts on a connection of its own and has replicas acknowledge what they wrote: WAIT counts only the writes of
 * its own connection, and blocks it. So calls go in rounds, one WAIT for all that came together. It narrows the
 * window in which a failover loses a grant; it is not consensus.
 */
export class Replicated {
  readonly #lane: Lane;
  readonly #rule: ReplicaRule;
  #orders: Order[] = [];
  #running = false;

  constructor(lane: Lane, rule: ReplicaRule) {
    this.#lane = lane;
    this.#rule = rule;
  }

  /** The outcome of each call; `NotReplicatedError` for one that was applied without its acknowledgements. */
  async runAll(calls: readonly Call[], dueAt: number): Promise<readonly Outcome[]> {
    return await new Promise((resolve, reject) => {
      this.#orders.push({ calls, dueAt, resolve, reject });
      if (!this.#running) void this.#rounds();
    });
  }

  async #rounds(): Promise<void> {
    this.#running = true;
    while (this.#orders.length > 0) {
      const orders = this.#orders;
      this.#orders = [];
      try {
        await this.#round(orders);
      } catch (error) {
        for (const { reject } of orders) reject(error);
      }
    }
    this.#running = false;
  }

  async #round(orders: readonly Order[]): Promise<void> {
    const dueAt = Math.min(...orders.map((order) => order.dueAt));
    const connection = await this.#lane.connection(dueAt);
    const calls = orders.flatMap((order) => order.calls);
    const outcomes = await connection.runAll(calls, dueAt);
    const applied = outcomes.some(isGrant);
    const shortfall = applied ? await this.#acknowledge(connection, dueAt) : undefined;
    let at = 0;
    for (const { calls: own, resolve } of orders) {
      const mine = outcomes.slice(at, at + own.length);
      at += own.length;
      resolve(
        shortfall === undefined
          ? mine
          : mine.map((outcome) => (isGrant(outcome) ? { ok: false, error: shortfall } : outcome)),
      );
    }
  }

  async #acknowledge(connection: Connection, dueAt: number): Promise<Error | undefined> {
    try {
      const { needed, all, timeoutMs, clock } = this.#rule;
      let count = needed;
      if (all) {
        const role = (await connection.send(["ROLE"], dueAt)) as readonly [
          string,
          unknown,
          unknown[],
        ];
        count = Math.max(needed, role[2].length);
      }
      // What is left is for the undo of a grant that too few have. 0 would mean: for ever.
      const left = Math.max(1, Math.floor((dueAt - clock.mono()) / 2));
      const limit = String(Math.min(timeoutMs, left));
      const got = Number(await connection.send(["WAIT", String(count), limit], dueAt));
      return got >= count ? undefined : new NotReplicatedError(got, count);
    } catch (error) {
      // The write stands, and nobody knows who has it.
      return new LinkError("Redis did not say which replicas have it", {
        sent: true,
        cause: error,
      });
    }
  }
}

/** Whether a script granted or renewed something: only that must be on the replicas. */
function isGrant(outcome: Outcome): boolean {
  if (!outcome.ok) return false;
  const { value } = outcome;
  return value === 1 || (Array.isArray(value) && value[0] === 1);
}
