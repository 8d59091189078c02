import type { Dialer, Wire } from "../../drivers/postgres/client.ts";
import type { Statement } from "../../drivers/sql/statement.ts";
import { PLAIN } from "../servers/postgres-plain.ts";
import type { ClientProcess, ClientWorld, Held, LockClient, LockTerms } from "./client.ts";

/** The habits of a hand-written lock in a PostgreSQL. */
export interface PlainHabits {
  /** A row with an owner and an end by `now()`; or a lock of the session on a number. */
  readonly how: "lease" | "advisory";
  /** Uses the row's counter, or a sequence, as a token. */
  readonly token?: boolean;
  /** For how long a client's transaction has been open when it takes the lock in it, in milliseconds, by client. */
  readonly ages?: Readonly<Record<string, number>>;
  /** Asks five times which session it has, and takes it for its own when the answer is the same. */
  readonly checksPid?: boolean;
}

/** The number that everybody locks who wants this name. */
const NUMBER = "42";
const POLL_MS = 50;
const COMMIT: Statement = { name: "commit", text: "COMMIT" };

/** A lock as people write it by hand in SQL. It exists to fail where it should. */
export class PlainClient implements LockClient {
  readonly process: ClientProcess;
  readonly #world: ClientWorld;
  readonly #dialer: Dialer;
  readonly #habits: PlainHabits;
  readonly #held = new Set<PlainHeld>();
  #wire: Wire | null = null;
  #count = 0;

  constructor(world: ClientWorld, process: ClientProcess, dialer: Dialer, habits: PlainHabits) {
    this.#world = world;
    this.process = process;
    this.#dialer = dialer;
    this.#habits = habits;
  }

  async acquire(lock: string, terms: LockTerms): Promise<PlainHeld | null> {
    const { probe } = this.#world;
    const { process } = this;
    const op = probe.op();
    this.#count += 1;
    const grant = `${process.name}${process.incarnation}-${this.#count}`;
    const { ttlMs, waitMs = Infinity } = terms;
    probe.ev(process, "invoke", "acquire", { op, lock, ttlMs });
    const until = process.clock.mono() + waitMs;
    for (;;) {
      const token = await this.#take(lock, grant, ttlMs);
      if (token !== null) return this.#hold(op, { lock, grant, token }, ttlMs);
      if (process.clock.mono() >= until) {
        probe.ev(process, "fail", "acquire", { op, lock });
        return null;
      }
      await process.sleep(POLL_MS);
    }
  }

  /** One statement, on the session that this client has. @throws Error when the session is lost */
  async run(statement: Statement, ...args: readonly string[]): Promise<readonly string[]> {
    this.#wire ??= await this.#dialer.dial(() => {
      this.#wire = null;
      // The lock is gone with the session, if anybody looks.
      if (this.#habits.how === "advisory") for (const held of this.#held) held.lose();
    });
    return await this.#wire.run({ statement, args }, false);
  }

  forget(held: PlainHeld): void {
    this.#held.delete(held);
  }

  /** The token, 0 where there is none; `null` when another has the lock. */
  async #take(lock: string, grant: string, ttlMs: number): Promise<bigint | null> {
    const { how, token, ages, checksPid } = this.#habits;
    try {
      if (how === "advisory") {
        if (checksPid === true) for (let n = 0; n < 5; n += 1) await this.run(PLAIN.pid);
        const [got] = await this.run(PLAIN.tryAdvisory, NUMBER);
        if (got !== "true") return null;
        return token === true ? BigInt((await this.run(PLAIN.drawToken))[0] ?? 0) : 0n;
      }
      const age = ages?.[this.process.name];
      if (age !== undefined) {
        await this.run(PLAIN.plainBegin);
        await this.process.sleep(age);
      }
      const [got] = await this.run(PLAIN.takeLease, lock, grant, String(ttlMs));
      if (age !== undefined) await this.run(COMMIT);
      return got === undefined ? null : BigInt(got);
    } catch {
      // The session is lost: the next try makes another.
      this.#wire = null;
      return null;
    }
  }

  #hold(
    op: number,
    facts: { readonly lock: string; readonly grant: string; readonly token: bigint },
    ttlMs: number,
  ): PlainHeld {
    const { lock, grant } = facts;
    const token = facts.token === 0n ? undefined : facts.token;
    const remainingMs = this.#habits.how === "advisory" ? 1e9 : ttlMs;
    const held = new PlainHeld(this.#world, this, { lock, grant, token }, remainingMs);
    this.#held.add(held);
    const acquired = { op, lock, grant, token, ttlMs, remainingMs };
    this.#world.probe.ev(this.process, "ok", "acquire", acquired);
    return held;
  }

  async release({ lock, grant }: PlainHeld): Promise<boolean> {
    const [done] =
      this.#habits.how === "advisory"
        ? await this.run(PLAIN.unlockAdvisory, NUMBER)
        : await this.run(PLAIN.endLease, lock, grant);
    return done === "1" || done === "true";
  }
}

/** A naive lease in SQL. */
export class PlainHeld implements Held {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope = "naive";
  readonly #world: ClientWorld;
  readonly #client: PlainClient;
  #until: number;

  constructor(
    world: ClientWorld,
    client: PlainClient,
    facts: { readonly lock: string; readonly grant: string; readonly token: bigint | undefined },
    remainingMs: number,
  ) {
    this.#world = world;
    this.#client = client;
    this.lock = facts.lock;
    this.grant = facts.grant;
    this.token = facts.token;
    this.#until = client.process.clock.mono() + remainingMs;
  }

  believes(): boolean {
    const accepted = this.#client.process.clock.mono() < this.#until;
    this.#tell("event", "held?", { accepted });
    return accepted;
  }

  /** It has heard that its session has ended. */
  lose(): void {
    if (this.#until === 0) return;
    this.#until = 0;
    this.#tell("event", "lost", {});
  }

  async release(): Promise<void> {
    const op = this.#world.probe.op();
    this.#until = 0;
    this.#client.forget(this);
    this.#tell("invoke", "release", { op });
    const released = await this.#client.release(this).catch(() => null);
    this.#tell(released === null ? "info" : released ? "ok" : "fail", "release", { op });
  }

  #tell(
    k: "invoke" | "ok" | "fail" | "info" | "event",
    f: "release" | "lost" | "held?",
    facts: { op?: number; accepted?: boolean },
  ): void {
    const { lock, grant, token } = this;
    this.#world.probe.ev(this.#client.process, k, f, { lock, grant, token, ...facts });
  }
}
