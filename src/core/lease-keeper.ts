import type { GrantRef } from "./driver.ts";
import { type Duration } from "./duration.ts";
import { BackendError, UnsupportedError } from "./errors.ts";
import { encodeExport } from "./exported.ts";
import type { ReleaseOutcome } from "./lease.ts";
import type { LeaseInput, LeaseOutput } from "./lease-state.ts";
import { asBackendError } from "./link.ts";
import type { Keeper, LiveLease } from "./live-lease.ts";
import type { ManagerEngine } from "./manager.ts";
import { parseTtl } from "./option-values.ts";
import type { ReturnOrder, ReturnOutcome } from "./returns.ts";
import { scopeOf } from "./scope.ts";
import { writeSequencer } from "./sequencer.ts";
import type { Tenure } from "./tenure.ts";

const CONFIRMED: LeaseInput = { kind: "confirmed" };

/** What a manager does for its leases. */
export class LeaseKeeper implements Keeper {
  readonly #engine: ManagerEngine;

  constructor(engine: ManagerEngine) {
    this.#engine = engine;
  }

  now(): number {
    return this.#engine.holderClock.now();
  }

  scopeOf(name: string): string {
    const { driver, settings, mac } = this.#engine;
    const { backendId, namespace } = settings;
    return scopeOf({ driver: driver.name, backendId, namespace }, name, mac);
  }

  sequencerOf(lease: LiveLease): string {
    const { name, mode, number, grantId, scope } = lease;
    if (number === null)
      throw new UnsupportedError("A lease without a fencing token has no sequencer.");
    const { settings, mac } = this.#engine;
    return writeSequencer({ name, mode, token: number, grantId, scope }, settings.keys[0], mac);
  }

  told(lease: LiveLease, output: Exclude<LeaseOutput, null>, cause: unknown): void {
    const { events, keepalive } = this.#engine;
    if (output === "lost") {
      const endedAt = Math.min(lease.tenure.deadline, lease.holdUntil, this.now());
      keepalive.stop(lease.tenure);
      lease.tenure.queue.ended(lease.tenure);
      const { phase } = lease;
      if (phase.state === "lost" && events.wants("lost"))
        events.emit("lost", {
          ...this.#facts(lease),
          reason: phase.reason,
          lateMs: this.now() - endedAt,
        });
    } else if (output === "jeopardy") {
      if (events.wants("jeopardy"))
        events.emit("jeopardy", { ...this.#facts(lease), remainingMs: lease.remainingMs(), cause });
    } else if (events.wants("safe")) events.emit("safe", this.#facts(lease));
  }

  renewed(tenure: Tenure): void {
    const { events } = this.#engine;
    if (tenure.lease !== undefined && events.wants("renewed"))
      events.emit("renewed", {
        ...this.#facts(tenure.lease),
        deadlineMs: this.deadlineMs(tenure.lease),
      });
  }

  /** When a lease ends by its clock, on the monotonic clock that events are stamped with: what was slept is not on it. */
  deadlineMs(lease: LiveLease): number {
    const slept = this.now() - this.#engine.clock.mono();
    return Math.min(lease.tenure.deadline, lease.holdUntil) - slept;
  }

  ending(lease: LiveLease): void {
    const { events } = this.#engine;
    if (events.wants("releasing")) events.emit("releasing", this.#facts(lease));
  }

  progressed(tenure: Tenure): void {
    if (tenure.progressed || tenure.over) return;
    tenure.progressed = true;
    this.#engine.keepalive.schedule(tenure);
  }

  async renew(tenure: Tenure, ttl?: Duration): Promise<void> {
    if (ttl !== undefined && this.#engine.declared.liveness === "session")
      throw new UnsupportedError(
        "On this driver the ttl is the session's and cannot be changed per lease.",
      );
    const ttlMs = ttl === undefined ? undefined : parseTtl(ttl, this.#engine.declared);
    try {
      await this.#engine.keepalive.renewNow(tenure, ttlMs);
    } catch (error) {
      throw error instanceof BackendError ? error : asBackendError(error, "renew");
    }
  }

  release(lease: LiveLease, done: (outcome: ReleaseOutcome) => void): void {
    const { tenure } = lease;
    const { queue } = tenure;
    if (!this.#engine.closing && queue.handOn(lease)) {
      this.#confirmed(lease);
      done("released");
      return;
    }
    this.#engine.keepalive.stop(tenure);
    queue.releasing(tenure);
    this.#engine.returns.begin(this.#orderOf(tenure, tenure.ref()), (outcome) => {
      if (outcome.kind === "released") this.#confirmed(lease);
      // Gone before its deadline: the store forgot it, or somebody took it. The holder hears of it now.
      if (outcome.kind === "gone") lease.apply({ kind: "gone", reason: outcome.reason });
      queue.ended(tenure);
      done(outcome.kind === "gone" ? "already-lost" : outcome.kind);
    });
  }

  /** Gives a tenure's record back; with `raiseTo` the name's counter is raised in the same step. */
  async giveBack(tenure: Tenure, raiseTo?: bigint): Promise<ReturnOutcome> {
    const ref = raiseTo === undefined ? tenure.ref() : { ...tenure.ref(), raiseTo };
    return await this.#engine.returns.give(this.#orderOf(tenure, ref));
  }

  #orderOf(tenure: Tenure, ref: GrantRef): ReturnOrder {
    const { requestTimeoutMs, lockDelayMs } = tenure.terms;
    tenure.returning ??= { late: tenure.late, maybeFreed: false, tries: 0 };
    return {
      ref,
      late: tenure.late,
      timeoutMs: requestTimeoutMs,
      // Time for a second try: where one reply was lost, it finds the record gone, and the release was ours. Whoever
      // closes does not want to wait twice.
      budgetMs: (this.#engine.closing ? 1 : 2) * requestTimeoutMs,
      livesMs: ref.ttlMs + lockDelayMs,
      oursUntilMs: tenure.deadline - this.#engine.holderClock.sleptMs,
      progress: tenure.returning,
    };
  }

  async export(lease: LiveLease): Promise<string> {
    const { tenure } = lease;
    const { declared, keepalive } = this.#engine;
    // Whoever resumes it holds it alone: beside other readers or permits that would be one holder too many.
    if (lease.mode !== "exclusive")
      throw new UnsupportedError(`A lease in mode "${lease.mode}" cannot be handed over.`);
    if (declared.transfer === "no")
      throw new UnsupportedError("Leases of this driver cannot be handed to another process.");
    // Whoever resumes it needs time: a fresh ttl, written at the backend.
    await this.renew(tenure);
    lease.assertHeld();
    keepalive.stop(tenure);
    lease.apply({ kind: "export" });
    tenure.queue.ended(tenure);
    return encodeExport({
      name: lease.name,
      secret: tenure.secret,
      scope: lease.scope,
      ttlMs: tenure.ttlMs,
      lockDelayMs: tenure.terms.lockDelayMs,
      token: lease.number,
    });
  }

  #confirmed(lease: LiveLease): void {
    lease.apply(CONFIRMED);
    const { events } = this.#engine;
    if (events.wants("released"))
      events.emit("released", { ...this.#facts(lease), heldMs: this.now() - lease.acquiredAt });
  }

  #facts(lease: LiveLease): {
    name: string;
    mode: LiveLease["mode"];
    grantId: string;
    token: bigint | null;
    atMs: number;
    monoMs: number;
  } {
    const { name, mode, grantId, number: token } = lease;
    const { clock } = this.#engine;
    return { name, mode, grantId, token, atMs: clock.wall(), monoMs: clock.mono() };
  }
}
