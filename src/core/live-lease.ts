import type { Mode } from "./capabilities.ts";
import { type Duration, parseDuration, YEAR_MS } from "./duration.ts";
import {
  InvalidArgumentError,
  LeaseLostError,
  LeaseReleasedError,
  type LostReason,
} from "./errors.ts";
import type { Holder } from "./holder.ts";
import type { LeaseBase, ReleaseOutcome } from "./lease.ts";
import {
  FRESH,
  type LeaseInput,
  type LeaseOutput,
  type LeaseState,
  type Phase,
  step,
} from "./lease-state.ts";
import type { Tenure } from "./tenure.ts";

const RELEASE: LeaseInput = { kind: "release" };

/** What a lease needs from its manager. */
export interface Keeper {
  /** The holder's clock. */
  now(): number;
  scopeOf(name: string): string;
  sequencerOf(lease: LiveLease): string;
  /** A lease changed in a way that its holder is told. */
  told(lease: LiveLease, output: Exclude<LeaseOutput, null>, cause: unknown): void;
  /** A lease ends because its holder says so. */
  ending(lease: LiveLease): void;
  progressed(tenure: Tenure): void;
  renew(tenure: Tenure, ttl?: Duration): Promise<void>;
  /** Hands on or gives back; `done` hears what it came to. */
  release(lease: LiveLease, done: (outcome: ReleaseOutcome) => void): void;
  export(lease: LiveLease): Promise<string>;
}

/** A lease on a driver without fencing, and a permit: everything but the token. */
export class LiveLease implements Omit<LeaseBase, "release"> {
  readonly tenure: Tenure;
  /** Holder's clock at the grant or hand-off. */
  readonly acquiredAt: number;
  /** The token for events and sequencers; `null` where there is none. */
  readonly number: bigint | null;
  /** A lease that was handed on inside this process took nothing over. */
  readonly takenOver: boolean;
  /** The body of a `request` runs under it: closing the manager waits for that. */
  inRequest = false;
  readonly #keeper: Keeper;
  #phase: Phase = FRESH;
  #controller: AbortController | undefined;
  #lost: LeaseLostError | undefined;
  #releasing: Promise<ReleaseOutcome> | undefined;

  constructor(tenure: Tenure, keeper: Keeper, now: number) {
    this.tenure = tenure;
    this.#keeper = keeper;
    this.acquiredAt = now;
    this.number = tenure.token;
    this.takenOver = tenure.takenOver && tenure.handOffs === 0;
    tenure.lease = this;
  }

  get name(): string {
    return this.tenure.queue.name;
  }
  get mode(): Mode {
    return this.tenure.terms.mode;
  }
  get grantId(): string {
    return this.tenure.grantId;
  }
  get scope(): string {
    return (this.tenure.queue.scope ??= this.#keeper.scopeOf(this.name));
  }
  get holder(): Holder {
    return this.tenure.terms.holder;
  }
  get sequencer(): string {
    return this.#keeper.sequencerOf(this);
  }
  /** Holder's clock: when the longest hold ends. */
  get holdUntil(): number {
    return this.acquiredAt + this.tenure.terms.maxHoldMs;
  }

  get signal(): AbortSignal {
    this.checkClock();
    this.#controller ??= new AbortController();
    if (this.#phase.state === "lost" && !this.#controller.signal.aborted)
      this.#controller.abort(this.lostError(this.#phase.reason));
    return this.#controller.signal;
  }

  get state(): LeaseState {
    this.checkClock();
    return this.#phase.state;
  }

  remainingMs(): number {
    this.checkClock();
    if (this.#phase.state !== "held" && this.#phase.state !== "jeopardy") return 0;
    return Math.max(0, Math.min(this.tenure.deadline, this.holdUntil) - this.#keeper.now());
  }

  assertHeld(): void {
    this.checkClock();
    const phase = this.#phase;
    if (phase.state === "lost") throw this.lostError(phase.reason);
    if (phase.state === "released" || phase.state === "exported")
      throw new LeaseReleasedError(this.name, phase.state);
  }

  async ensure(atLeast: Duration): Promise<void> {
    const ms = parseDuration("atLeast", atLeast, { min: 0, max: YEAR_MS });
    this.assertHeld();
    if (this.remainingMs() >= ms) return;
    if (ms > this.tenure.validityMs)
      throw new InvalidArgumentError(
        `Expected \`atLeast\` to be at most the ttl less its margin, ${Math.floor(this.tenure.validityMs)} ms of ${this.tenure.ttlMs} ms, got ${ms} ms.`,
      );
    try {
      await this.renew();
    } catch (error) {
      if (this.remainingMs() < ms) throw error;
    }
  }

  progress(): void {
    // A lease that was handed on must not vouch for the job that has it now.
    if (this.#phase.state === "held" || this.#phase.state === "jeopardy")
      this.#keeper.progressed(this.tenure);
  }

  async renew(ttl?: Duration): Promise<void> {
    this.assertHeld();
    await this.#keeper.renew(this.tenure, ttl);
    this.assertHeld();
  }

  /** Not async, which would make a second promise for every lease. The same promise again while its outcome stands. */
  release(): PromiseLike<ReleaseOutcome> {
    this.#releasing ??= new Promise((resolve) => {
      this.checkClock();
      const over = this.#phase.state === "lost" || this.#phase.state === "exported";
      if (over) resolve("already-lost");
      else {
        this.apply(RELEASE);
        this.#keeper.release(this, (outcome) => {
          // Never before `release` has returned: the backend was asked.
          if (outcome === "unknown") this.#releasing = undefined;
          resolve(outcome);
        });
      }
    });
    return this.#releasing;
  }

  async export(): Promise<string> {
    this.assertHeld();
    return await this.#keeper.export(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  toJSON(): Record<string, unknown> {
    const { name, mode, grantId, scope, holder, takenOver, state } = this;
    return {
      name,
      mode,
      grantId,
      scope,
      ...(this.number === null ? {} : { token: this.number.toString() }),
      state,
      remainingMs: this.remainingMs(),
      takenOver,
      holder,
    };
  }

  /** The phase as it stands, without a look at the clock. */
  get phase(): Phase {
    return this.#phase;
  }

  /** The one error of this lease's loss: the signal's reason, and what every later call throws. */
  lostError(reason: LostReason, cause?: unknown): LeaseLostError {
    this.#lost ??= new LeaseLostError(this.name, reason, this.number, cause);
    return this.#lost;
  }

  /** Ends the lease when its time is up: the first thing that every read does, and every timer. */
  checkClock(): void {
    if (this.#phase.state !== "held" && this.#phase.state !== "jeopardy") return;
    const now = this.#keeper.now();
    // Reading the clock may itself have ended the lease, by way of the clock's alarm.
    if (now >= this.tenure.deadline) this.apply({ kind: "deadline" });
    else if (now >= this.holdUntil) this.apply({ kind: "gone", reason: "max-hold" });
  }

  /** Steps the state machine and tells the holder what it says. */
  apply(input: LeaseInput, cause?: unknown): void {
    const { phase, output } = step(this.#phase, input);
    const before = this.#phase.state;
    this.#phase = phase;
    if (before !== phase.state && (phase.state === "released" || phase.state === "exported"))
      this.#keeper.ending(this);
    if (output === null) return;
    if (phase.state === "lost") {
      this.tenure.over = true;
      const error = this.lostError(phase.reason, cause);
      this.#keeper.told(this, output, cause);
      this.#controller?.abort(error);
    } else this.#keeper.told(this, output, cause);
  }
}

/** A lease with a fencing token. */
export class FencedLiveLease extends LiveLease {
  readonly token: bigint;
  readonly previousToken: bigint | null;

  constructor(
    tenure: Tenure,
    keeper: Keeper,
    now: number,
    token: bigint,
    previousToken: bigint | null,
  ) {
    super(tenure, keeper, now);
    this.token = token;
    this.previousToken = previousToken;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), previousToken: this.previousToken?.toString() ?? null };
  }
}
