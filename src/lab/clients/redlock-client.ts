import type {
  ClientProcess,
  ClientWorld,
  Held,
  LockClient,
  LockTerms,
  RedisPort,
} from "./client.ts";
import { LATE, within } from "./within.ts";

/** How a lock over several Redis servers goes about it. */
export interface RedlockHabits {
  readonly quorum: number;
  /** `max`: the largest of the counters. `write-back`: that, written back to a quorum, where value and counter still match. */
  readonly token: "max" | "write-back" | "write-back unbound";
  /** Looks at the clock again when the answers are there. */
  readonly secondLook?: boolean;
  /** How long it waits for each server; a third of the ttl unless said otherwise. */
  readonly timeoutMs?: number;
  /** Waits a random time after a failure. */
  readonly jitter?: boolean;
  /** Asks each server twice, as a client library that retries does. */
  readonly asksTwice?: boolean;
}

/** A lock that is held while a quorum of independent servers agree. */
export class RedlockClient implements LockClient {
  readonly process: ClientProcess;
  readonly #world: ClientWorld;
  readonly #nodes: readonly RedisPort[];
  readonly #habits: RedlockHabits;
  #count = 0;

  constructor(
    world: ClientWorld,
    process: ClientProcess,
    nodes: readonly RedisPort[],
    habits: RedlockHabits,
  ) {
    this.#world = world;
    this.process = process;
    this.#nodes = nodes;
    this.#habits = habits;
  }

  async acquire(lock: string, terms: LockTerms): Promise<Held | null> {
    const { probe } = this.#world;
    const { process } = this;
    const op = probe.op();
    const { ttlMs, waitMs = Infinity } = terms;
    probe.ev(process, "invoke", "acquire", { op, lock, ttlMs });
    const until = process.clock.mono() + waitMs;
    for (;;) {
      const held = await this.#round(op, lock, ttlMs);
      if (held !== null) return held;
      if (process.clock.mono() >= until) {
        probe.ev(process, "fail", "acquire", { op, lock });
        return null;
      }
      await process.sleep(this.#habits.jitter === false ? 50 : 20 + 100 * process.random.unit());
    }
  }

  async #round(op: number, lock: string, ttlMs: number): Promise<Held | null> {
    const { process } = this;
    const { quorum, token: how, secondLook = true } = this.#habits;
    this.#count += 1;
    const grant = `${process.name}${process.incarnation}-${this.#count}`;
    const sentAt = process.clock.mono();
    const counters = await this.#ask(this.#habits.timeoutMs ?? ttlMs / 3, lock, grant, ttlMs);
    const got = counters.filter((c) => c > 0);
    const top = Math.max(0, ...got);
    let agreed = got.length >= quorum;
    if (agreed && how !== "max") {
      const bound = how === "write-back";
      const votes = await this.#all(ttlMs / 3, async (node, i) => {
        const c = counters[i] ?? 0;
        if (c <= 0) return 0;
        return await node.call(process, [
          "EVAL",
          "writeBack",
          [lock, `counter:${lock}`],
          [grant, top, bound ? c : "*"],
        ]);
      });
      agreed = votes.filter((vote) => vote === 1).length >= quorum;
    }
    const remainingMs = sentAt + ttlMs * 0.98 - process.clock.mono();
    if (!agreed || (secondLook && remainingMs <= 0)) {
      void this.giveBack(lock, grant);
      return null;
    }
    const token = BigInt(top);
    // Without the second look the client counts from now on.
    const until = secondLook ? sentAt + ttlMs * 0.98 : process.clock.mono() + ttlMs;
    const facts = { lock, grant, token };
    this.#world.probe.ev(process, "ok", "acquire", {
      op,
      ...facts,
      ttlMs,
      remainingMs: until - process.clock.mono(),
    });
    return new RedlockHeld(this.#world, this, facts, until);
  }

  /** Deletes it everywhere, also where the answer was lost. */
  async giveBack(lock: string, grant: string): Promise<number> {
    const replies = await this.#all(500, async (node) =>
      node.call(this.process, ["EVAL", "giveBack", [lock], [grant]]),
    );
    return replies.filter((reply) => reply === 1).length;
  }

  async #ask(timeoutMs: number, lock: string, grant: string, ttlMs: number): Promise<number[]> {
    const replies = await this.#all(timeoutMs, async (node) => {
      const ask = async (): Promise<unknown> =>
        node.call(this.process, [
          "EVAL",
          "takeAndCount",
          [lock, `counter:${lock}`],
          [grant, ttlMs],
        ]);
      const first = ask();
      if (this.#habits.asksTwice === true) void ask();
      return await first;
    });
    return replies.map((reply) => (typeof reply === "number" ? reply : 0));
  }

  async #all(
    timeoutMs: number,
    work: (node: RedisPort, i: number) => Promise<unknown>,
  ): Promise<unknown[]> {
    return await Promise.all(
      this.#nodes.map(async (node, i) => {
        const reply = await within(this.process, timeoutMs, work(node, i));
        return reply === LATE ? 0 : reply;
      }),
    );
  }
}

class RedlockHeld implements Held {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint;
  readonly scope = "redlock";
  readonly #world: ClientWorld;
  readonly #client: RedlockClient;
  #until: number;

  constructor(
    world: ClientWorld,
    client: RedlockClient,
    facts: { lock: string; grant: string; token: bigint },
    until: number,
  ) {
    this.#world = world;
    this.#client = client;
    this.lock = facts.lock;
    this.grant = facts.grant;
    this.token = facts.token;
    this.#until = until;
  }

  believes(): boolean {
    const { process } = this.#client;
    const accepted = process.clock.mono() < this.#until;
    const { lock, grant, token } = this;
    this.#world.probe.ev(process, "event", "held?", { lock, grant, token, accepted });
    return accepted;
  }

  async release(): Promise<void> {
    const { process } = this.#client;
    const { probe } = this.#world;
    const facts = { op: probe.op(), lock: this.lock, grant: this.grant, token: this.token };
    this.#until = 0;
    probe.ev(process, "invoke", "release", facts);
    const freed = await this.#client.giveBack(this.lock, this.grant);
    probe.ev(process, freed > 0 ? "ok" : "fail", "release", facts);
  }
}
