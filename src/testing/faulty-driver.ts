import type { Capabilities } from "../core/capabilities.ts";
import {
  type Answer,
  type Ask,
  type Backend,
  type Driver,
  type DriverContext,
  DriverError,
  type Notice,
} from "../core/driver.ts";
import type { ProcessClock } from "./process-clock.ts";

/** The calls of a backend that go over the link. */
export type StepKind =
  | "attempt"
  | "renew"
  | "release"
  | "revoke"
  | "exchange"
  | "inspect"
  | "list"
  | "probe";

/**
 * What happens to one step. `silence`: it is applied, and no reply ever comes. `reset`: it is applied, and the caller is
 * told that the connection broke. `dropped`: it never arrives, and the caller is told the same. `held-request`: it
 * arrives when it is delivered. `held-reply`: it is applied, and its reply arrives when it is delivered.
 */
export type StepFault = "silence" | "reset" | "dropped" | "held-request" | "held-reply";

/**
 * How the whole link is. `silent`: nothing gets through and nobody is told. `mute`: requests arrive, replies do not.
 * `refusing`: each call fails at once, not applied. `deaf`: only the backend's own notices are lost.
 */
export type LinkState = "clear" | "silent" | "mute" | "refusing" | "deaf";

/** A step that a fault waits for, or has caught. */
export class CaughtStep {
  readonly kind: StepKind;
  readonly fault: StepFault;
  /** How many steps of this kind pass before it. */
  skip: number;
  /** What the backend said, once it was asked. */
  answer: unknown;
  #run: (() => Promise<unknown>) | undefined;
  #reply: ((answer: Promise<unknown>) => void) | undefined;

  constructor(kind: StepKind, fault: StepFault, nth: number) {
    this.kind = kind;
    this.fault = fault;
    this.skip = nth - 1;
  }

  /** The step was made, whatever became of it. */
  get isMade(): boolean {
    return this.#run !== undefined;
  }

  /** Lets what is held go on its way; answers what the backend says, whether anybody still listens or not. */
  async deliver(): Promise<unknown> {
    const run = this.#run;
    if (run === undefined) throw new Error(`No ${this.kind} was made yet.`);
    const answering =
      this.fault === "held-request" ? this.#apply(run) : Promise.resolve(this.answer);
    this.#reply?.(answering);
    return await answering;
  }

  /** The caller's step: resolves, rejects or hangs as the fault says. */
  async meet(run: () => Promise<unknown>): Promise<unknown> {
    this.#run = run;
    if (this.fault !== "dropped" && this.fault !== "held-request") await this.#apply(run);
    if (this.fault === "reset" || this.fault === "dropped")
      throw new DriverError("unavailable", "unknown", "the connection broke");
    return await new Promise<unknown>((resolve) => {
      if (this.fault !== "silence") this.#reply = resolve;
    });
  }

  async #apply(run: () => Promise<unknown>): Promise<unknown> {
    this.answer = await run();
    return this.answer;
  }
}

/** What one process's link to the backend does, and what went over it. */
export class FaultyLink {
  readonly #clock: ProcessClock;
  readonly #onGrant: (ask: Ask, answer: Answer) => void;
  readonly #waitingFor: CaughtStep[] = [];
  readonly #backends = new Set<Backend>();
  readonly #counts = new Map<StepKind, number>();
  readonly #answers = new Map<StepKind, number>();
  #state: LinkState = "clear";

  /** `onGrant` hears of every granting answer, before anybody else does. */
  constructor(clock: ProcessClock, onGrant: (ask: Ask, answer: Answer) => void) {
    this.#clock = clock;
    this.#onGrant = onGrant;
  }

  /** Catches the `nth` step of a kind from now. */
  catch(kind: StepKind, fault: StepFault, nth = 1): CaughtStep {
    const caught = new CaughtStep(kind, fault, nth);
    this.#waitingFor.push(caught);
    return caught;
  }

  /** What waits to be caught is forgotten when the link is cleared. */
  become(state: LinkState): void {
    this.#state = state;
    if (state === "clear") this.#waitingFor.length = 0;
  }

  /** How many steps of this kind, or of all, were made. */
  count(kind?: StepKind): number {
    if (kind !== undefined) return this.#counts.get(kind) ?? 0;
    let sum = 0;
    for (const count of this.#counts.values()) sum += count;
    return sum;
  }

  /** How many steps of this kind the backend has answered, whether the answer came through or not. */
  answers(kind: StepKind): number {
    return this.#answers.get(kind) ?? 0;
  }

  /** The driver's own backends that were opened and not closed. */
  get backends(): readonly Backend[] {
    return [...this.#backends];
  }

  /** The driver as this process sees it. */
  wrap<C extends Capabilities>(driver: Driver<C>): Driver<C> {
    return { ...driver, open: async (context) => this.#open(driver, context) };
  }

  async #open(driver: Driver, context: DriverContext): Promise<Backend> {
    await this.#gate();
    const inner = await driver.open({
      ...context,
      notify: (notice) => {
        void this.#hear(notice, context.notify);
      },
    });
    this.#backends.add(inner);
    const backend: Backend = {
      attempt: async (ask, io) =>
        this.#step("attempt", async () => {
          const answer = await inner.attempt(ask, io);
          if (answer.kind === "granted") this.#onGrant(ask, answer);
          return answer;
        }),
      renew: async (refs, io) => this.#step("renew", async () => inner.renew(refs, io)),
      release: async (refs, io) => this.#step("release", async () => inner.release(refs, io)),
      revoke: async (order, io) => this.#step("revoke", async () => inner.revoke(order, io)),
      inspect: async (name, io) => this.#step("inspect", async () => inner.inspect(name, io)),
      list: async (page, io) => this.#step("list", async () => inner.list(page, io)),
      probe: async (io) => this.#step("probe", async () => inner.probe(io)),
      close: async () => {
        await inner.close();
        this.#backends.delete(inner);
      },
    };
    const exchange = inner.exchange?.bind(inner);
    if (exchange === undefined) return backend;
    return {
      ...backend,
      exchange: async (from, ask, io) =>
        this.#step("exchange", async () => exchange(from, ask, io)),
    };
  }

  async #step<T>(kind: StepKind, make: () => Promise<T>): Promise<T> {
    this.#counts.set(kind, this.count(kind) + 1);
    const run = async (): Promise<T> => {
      try {
        return await make();
      } finally {
        this.#answers.set(kind, this.answers(kind) + 1);
      }
    };
    const caught = this.#catching(kind);
    if (caught !== undefined) {
      const answer = (await caught.meet(run)) as T;
      await this.#clock.running();
      return answer;
    }
    await this.#gate();
    const answer = await run();
    await this.#clock.running();
    // The link may have broken while the reply was on its way.
    if (this.#state === "silent" || this.#state === "mute") return await never();
    return answer;
  }

  /** Lets a request pass, or not. */
  async #gate(): Promise<void> {
    if (this.#state === "silent") await never();
    if (this.#state === "refusing")
      throw new DriverError("unavailable", "not-applied", "the backend refuses connections");
  }

  async #hear(notice: Notice, tell: (notice: Notice) => void): Promise<void> {
    await this.#clock.running();
    if (this.#state === "clear" || this.#state === "refusing") tell(notice);
  }

  #catching(kind: StepKind): CaughtStep | undefined {
    for (const [at, caught] of this.#waitingFor.entries()) {
      if (caught.kind !== kind) continue;
      if (caught.skip === 0) return this.#waitingFor.splice(at, 1)[0];
      caught.skip -= 1;
    }
    return undefined;
  }
}

async function never<T>(): Promise<T> {
  return await new Promise<T>(() => undefined);
}
