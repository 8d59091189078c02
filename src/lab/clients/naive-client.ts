import type {
  ClientProcess,
  ClientWorld,
  Held,
  LockClient,
  LockTerms,
  RedisPort,
} from "./client.ts";
import { LATE, within } from "./within.ts";

/** The habits of a hand-written Redis lock; the defaults are those of most articles. */
export interface NaiveHabits {
  /** `two-step`: SETNX, then PEXPIRE. `get-set`: looks first, then sets. */
  readonly take?: "set-nx" | "two-step" | "get-set";
  /** `del`: whoever holds it. */
  readonly release?: "del" | "compare-and-delete";
  /** `set`: makes it again where it is gone. */
  readonly renew?: "pexpire" | "compare-and-expire" | "set";
  /** What the client goes by: nothing but a failed renewal; its monotonic clock from the answer on; its wall clock. */
  readonly believes?: "until told" | "mono" | "wall";
  /** A number from INCR with each grant. */
  readonly token?: boolean;
  /** Waits for so many replicas after taking it. */
  readonly replicas?: number;
  /** `subscribe`: tries again only when told, as everybody who waits is; `line`: the oldest alone is told. */
  readonly waits?: "poll" | "subscribe" | "line";
  /** How often `poll` asks again, in milliseconds, give or take 60 %. 50 by default. */
  readonly everyMs?: number;
  /** Asks again after so long without an answer. */
  readonly retryMs?: number;
  /** Then adopts what it finds to be its own, with a full ttl from then on; without this it is in its own way. */
  readonly adopts?: boolean;
  /** Sends the release again when no answer came. */
  readonly retriesRelease?: boolean;
}

/** A lock as people write it by hand on one Redis. It exists to fail where it should. */
export class NaiveClient implements LockClient {
  readonly process: ClientProcess;
  readonly #world: ClientWorld;
  readonly #redis: () => RedisPort;
  readonly #habits: NaiveHabits;
  #count = 0;

  constructor(
    world: ClientWorld,
    process: ClientProcess,
    redis: () => RedisPort,
    habits: NaiveHabits = {},
  ) {
    this.#world = world;
    this.process = process;
    this.#redis = redis;
    this.#habits = habits;
  }

  async acquire(lock: string, terms: LockTerms): Promise<NaiveHeld | null> {
    const { probe } = this.#world;
    const { process } = this;
    const op = probe.op();
    this.#count += 1;
    const grant = `${process.name}${process.incarnation}-${this.#count}`;
    const { ttlMs, waitMs = Infinity } = terms;
    probe.ev(process, "invoke", "acquire", { op, lock, ttlMs });
    const until = process.clock.mono() + waitMs;
    const stand = this.#waiter(lock, grant);
    let tries = 0;
    while (!(await this.#take(lock, grant, ttlMs + (terms.lockDelayMs ?? 0)))) {
      if (process.clock.mono() >= until) {
        probe.ev(process, "fail", "acquire", { op, lock });
        return null;
      }
      tries += 1;
      const woken = await stand();
      // From here on it is one of those who wait, whatever the server knows of them.
      if (tries === 1) probe.ev(process, "event", "enqueue", { lock, grant });
      await woken();
    }
    const token =
      this.#habits.token === true
        ? BigInt(Number(await this.#redis().call(process, ["INCR", `counter:${lock}`])))
        : undefined;
    if (this.#habits.replicas !== undefined)
      await this.#redis().wait(process, this.#habits.replicas, 1000);
    return this.#hold(op, { lock, grant, token }, terms);
  }

  /** Goes on under the value of another process, as often as it is told. */
  async resume(exported: string, lock: string, terms: LockTerms): Promise<NaiveHeld | null> {
    const { probe } = this.#world;
    const { process } = this;
    const op = probe.op();
    probe.ev(process, "invoke", "acquire", { op, lock, ttlMs: terms.ttlMs });
    const [value = "", number = ""] = exported.split(" ");
    const grant = `${value}@${process.name}`;
    const token = number === "" ? undefined : BigInt(number);
    return await Promise.resolve(this.#hold(op, { lock, grant, token, value }, terms));
  }

  #hold(op: number, facts: NaiveFacts, terms: LockTerms): NaiveHeld {
    const { process } = this;
    const held = new NaiveHeld(
      { world: this.#world, process, redis: this.#redis, habits: this.#habits },
      facts,
      terms,
    );
    const { lock, grant, token } = facts;
    this.#world.probe.ev(process, "ok", "acquire", {
      op,
      lock,
      grant,
      token,
      ttlMs: terms.ttlMs,
      remainingMs: held.remainingMs(),
    });
    held.start();
    return held;
  }

  async #take(lock: string, grant: string, px: number): Promise<boolean> {
    const { process } = this;
    const redis = this.#redis();
    const { take = "set-nx", retryMs } = this.#habits;
    if (take === "two-step") {
      if ((await redis.call(process, ["SET", lock, grant, "NX"])) === null) return false;
      await redis.call(process, ["PEXPIRE", lock, px]);
      return true;
    }
    if (take === "get-set") {
      if ((await redis.call(process, ["GET", lock])) !== null) return false;
      return (await redis.call(process, ["SET", lock, grant, "PX", px])) !== null;
    }
    const asked = redis.call(process, ["SET", lock, grant, "NX", "PX", px]);
    if (retryMs === undefined) return (await asked) !== null;
    const answer = await within(process, retryMs, asked);
    if (answer !== LATE) return answer !== null;
    if ((await redis.call(process, ["SET", lock, grant, "NX", "PX", px])) !== null) return true;
    // Its own value means that the first try went through.
    return this.#habits.adopts === true && (await redis.call(process, ["GET", lock])) === grant;
  }

  /** Sees to it that somebody tells when to try again. Resolves, when that is seen to, to the wait itself. */
  #waiter(lock: string, grant: string): () => Promise<() => Promise<void>> {
    const { process } = this;
    const { waits = "poll", everyMs = 50 } = this.#habits;
    if (waits === "poll") {
      const pause = async (): Promise<void> =>
        process.sleep(everyMs * (0.4 + 1.2 * process.random.unit()));
      return async () => Promise.resolve(pause);
    }
    let wake: (() => void) | undefined;
    const told = (): void => {
      // Nobody waits any more.
      if (wake === undefined) return;
      this.#world.probe.ev(process, "event", "wakeup", { lock, grant });
      wake();
    };
    const listen = async (): Promise<void> =>
      this.#redis().subscribe(process, lock, told, waits === "line");
    if (waits === "subscribe") void listen();
    return async () => {
      const woken = new Promise<void>((resolve) => {
        wake = () => {
          wake = undefined;
          resolve();
        };
      });
      if (waits === "line") await listen();
      return async () => woken;
    };
  }
}

interface NaiveFacts {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  /** What the lock's key holds, where that is not the grant. */
  readonly value?: string;
}

interface NaiveParts {
  readonly world: ClientWorld;
  readonly process: ClientProcess;
  readonly redis: () => RedisPort;
  readonly habits: NaiveHabits;
}

/** A naive lease. */
export class NaiveHeld implements Held {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope = "naive";
  readonly #parts: NaiveParts;
  readonly #terms: LockTerms;
  readonly #value: string;
  #until = 0;
  #over = false;

  constructor(parts: NaiveParts, facts: NaiveFacts, terms: LockTerms) {
    this.#parts = parts;
    this.#value = facts.value ?? facts.grant;
    this.lock = facts.lock;
    this.grant = facts.grant;
    this.token = facts.token;
    this.#terms = terms;
    this.#extend();
  }

  start(): void {
    if (this.#terms.renews === true) void this.#keepAlive();
  }

  remainingMs(): number {
    if (this.#over) return 0;
    return this.#parts.habits.believes === "until told" ? 1e9 : this.#until - this.#read();
  }

  believes(): boolean {
    const accepted = this.remainingMs() > 0;
    this.#tell("event", "held?", { accepted });
    return accepted;
  }

  async release(): Promise<void> {
    const { world, process, redis, habits } = this.#parts;
    const op = world.probe.op();
    this.#over = true;
    this.#tell("invoke", "release", { op });
    const send = async (): Promise<unknown> =>
      habits.release === "compare-and-delete"
        ? redis().call(process, ["EVAL", "compareAndDelete", [this.lock], [this.#value]])
        : redis().call(process, ["DEL", this.lock]);
    let reply = await within(process, 500, send());
    if (reply === LATE && habits.retriesRelease === true)
      reply = await within(process, 500, send());
    this.#tell(reply === LATE ? "info" : reply === 1 ? "ok" : "fail", "release", { op });
  }

  async handOver(): Promise<string> {
    this.#over = true;
    this.#tell("invoke", "release", { op: this.#parts.world.probe.op() });
    return await Promise.resolve(`${this.#value} ${this.token?.toString() ?? ""}`);
  }

  async #keepAlive(): Promise<void> {
    const { process } = this.#parts;
    const { ttlMs } = this.#terms;
    for (;;) {
      await process.sleep(ttlMs / 3);
      if (this.#over) return;
      const reply = await within(process, ttlMs / 3, this.#renew());
      if (this.isOver()) return;
      if (reply === LATE) continue;
      if (reply === null || reply === 0) {
        this.#over = true;
        this.#tell("event", "lost", {});
        return;
      }
      this.#extend();
      this.#tell("ok", "renew", { remainingMs: this.remainingMs() });
    }
  }

  /** Asked anew after each pause. */
  private isOver(): boolean {
    return this.#over;
  }

  async #renew(): Promise<unknown> {
    const { process, redis, habits } = this.#parts;
    const { ttlMs } = this.#terms;
    if (habits.renew === "set")
      return await redis().call(process, ["SET", this.lock, this.#value, "PX", ttlMs]);
    if (habits.renew === "compare-and-expire")
      return await redis().call(process, [
        "EVAL",
        "compareAndExpire",
        [this.lock],
        [this.#value, ttlMs],
      ]);
    return await redis().call(process, ["PEXPIRE", this.lock, ttlMs]);
  }

  #extend(): void {
    this.#until = this.#read() + this.#terms.ttlMs;
  }

  #read(): number {
    const { clock } = this.#parts.process;
    return this.#parts.habits.believes === "wall" ? clock.wall() : clock.mono();
  }

  #tell(
    k: "invoke" | "ok" | "fail" | "info" | "event",
    f: "release" | "renew" | "lost" | "held?",
    facts: { op?: number; accepted?: boolean; remainingMs?: number },
  ): void {
    const { lock, grant, token } = this;
    this.#parts.world.probe.ev(this.#parts.process, k, f, { lock, grant, token, ...facts });
  }
}
