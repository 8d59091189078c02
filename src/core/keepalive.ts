import { backoffMs } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import type { Renewal } from "./driver.ts";
import { DueQueue } from "./due-queue.ts";
import { asDriverError, type Link, noAnswer } from "./link.ts";
import type { Random } from "./random.ts";
import type { Tenure } from "./tenure.ts";
import type { HolderClock } from "./validity.ts";

/** The most leases in one renewal request. */
const MAX_BATCH = 500;

/** A host that slept is noticed within this time of its waking: timers stood still, and leases may have ended. */
const LOOK_MS = 1000;

/** What the keepalive tells about a tenure. */
export interface KeepaliveListener {
  renewed(tenure: Tenure): void;
}

/**
 * Renews every lease of a manager, and ends each at its deadline. One timer; leases that are due together go out in
 * batches, earliest deadline first. The deadline depends on no answer: a renewal in flight does not postpone it.
 */
export class Keepalive {
  readonly #link: Link;
  readonly #clock: HolderClock;
  readonly #random: Random;
  readonly #listener: KeepaliveListener;
  readonly #due: DueQueue<Tenure>;
  /** Halved when a whole batch fails, doubled when one succeeds: one bad row must not hold up five hundred. */
  #batch = MAX_BATCH;

  constructor(
    link: Link,
    clocks: { readonly host: Clock; readonly holder: HolderClock; readonly random: Random },
    listener: KeepaliveListener,
  ) {
    this.#link = link;
    this.#clock = clocks.holder;
    this.#random = clocks.random;
    this.#listener = listener;
    this.#due = new DueQueue(
      clocks.host,
      () => clocks.holder.now(),
      (due) => {
        this.#onDue(due);
      },
      { lookMs: LOOK_MS },
    );
  }

  /** Starts to look after a tenure, or looks again after its times changed. `now`: a reading of the holder's clock. */
  schedule(tenure: Tenure, now?: number): void {
    const lease = tenure.lease;
    if (tenure.over || lease === undefined) {
      this.#due.delete(tenure);
      return;
    }
    const end = Math.min(tenure.deadline, lease.holdUntil);
    const renewAt = this.#renews(tenure) ? tenure.renewAt : Infinity;
    if (renewAt < end) this.#due.set(tenure, renewAt, tenure.ttlMs / 100, now);
    else this.#due.set(tenure, end);
  }

  stop(tenure: Tenure): void {
    tenure.over = true;
    this.#due.delete(tenure);
  }

  /** Ends all that is still looked after, and the timer. */
  close(): void {
    for (const tenure of this.tenures()) tenure.over = true;
    this.#due.clear();
  }

  tenures(): Tenure[] {
    return [...this.#due.items()];
  }

  /** The clock jumped: what is over ends now. */
  recheck(): void {
    this.#due.run();
  }

  /** One renewal at once for everything, as after a jump of the wall clock. */
  doubtAll(cause: unknown, tenures: readonly Tenure[] = this.tenures()): void {
    const now = this.#clock.now();
    for (const tenure of tenures) {
      if (tenure.over) continue;
      tenure.failures = Math.max(1, tenure.failures);
      tenure.lease?.apply({ kind: "doubt", answered: true }, cause);
      tenure.renewAt = now;
      this.schedule(tenure);
    }
    this.#due.run();
  }

  /** Renews one tenure now, after a renewal that is under way. Rejects with a `DriverError`. */
  async renewNow(tenure: Tenure, ttlMs?: number): Promise<void> {
    while (tenure.renewing !== undefined) await tenure.renewing;
    if (ttlMs !== undefined) tenure.ttlMs = ttlMs;
    const failure: { error?: unknown } = {};
    await this.#send([tenure], failure);
    if (failure.error !== undefined) throw asDriverError(failure.error);
  }

  #renews(tenure: Tenure): boolean {
    if (tenure.renewing !== undefined || tenure.keepalive === "off") return false;
    return tenure.keepalive === "auto" || tenure.progressed;
  }

  #onDue(due: Tenure[]): void {
    const now = this.#clock.now();
    const batch: Tenure[] = [];
    for (const tenure of due) {
      tenure.lease?.checkClock();
      if (tenure.over) continue;
      // A bucket may come a little early; what is nearly due goes along.
      if (this.#renews(tenure) && now >= tenure.renewAt - tenure.ttlMs / 100) batch.push(tenure);
      else this.schedule(tenure);
    }
    batch.sort((a, b) => a.deadline - b.deadline);
    for (let at = 0; at < batch.length; ) {
      // One request has one timeout: a short lease must not wait for the answer as long as a long one may.
      const timeoutMs = batch[at]?.terms.requestTimeoutMs;
      let end = at + 1;
      while (
        end < batch.length &&
        end - at < this.#batch &&
        batch[end]?.terms.requestTimeoutMs === timeoutMs
      )
        end += 1;
      void this.#send(batch.slice(at, end));
      at = end;
    }
  }

  /** Sends one batch. Never rejects. */
  async #send(batch: Tenure[], failure?: { error?: unknown }): Promise<void> {
    // Drivers lock rows in the order of the batch: one order for every process.
    batch.sort((a, b) => (a.queue.name < b.queue.name ? -1 : a.queue.name > b.queue.name ? 1 : 0));
    const sentAt = this.#clock.now();
    const timeoutMs = batch[0]?.terms.requestTimeoutMs ?? 0;
    const refs = batch.map((tenure) => {
      const ttlMs = tenure.renewalTtlMs(sentAt);
      tenure.sending(sentAt, ttlMs);
      tenure.progressed = false;
      return tenure.ref(ttlMs);
    });
    const answering = this.#link
      .call(timeoutMs, async (backend, io) => backend.renew(refs, io))
      .then(
        (renewals) => {
          this.#batch = Math.min(MAX_BATCH, this.#batch * 2);
          return renewals;
        },
        (error: unknown): Renewal[] => {
          this.#batch = Math.max(1, this.#batch >> 1);
          return batch.map(() => ({ kind: "failed", error }));
        },
      )
      .then((renewals) => {
        batch.forEach((tenure, i) => {
          tenure.renewing = undefined;
          const renewal = known(renewals[i]);
          if (failure !== undefined && renewal.kind === "failed") failure.error = renewal.error;
          this.#settle(tenure, renewal, sentAt, refs[i]?.ttlMs ?? tenure.ttlMs);
        });
      });
    for (const tenure of batch) {
      tenure.renewing = answering;
      this.schedule(tenure);
    }
    await answering;
  }

  #settle(tenure: Tenure, renewal: Renewal, sentAt: number, ttlMs: number): void {
    const lease = tenure.lease;
    // Nothing is believed before the clock was looked at: an answer that comes after the deadline comes too late.
    lease?.checkClock();
    if (tenure.over || lease === undefined) return;
    if (renewal.kind === "gone") {
      lease.apply({ kind: "gone", reason: renewal.reason });
      return;
    }
    if (renewal.kind === "renewed") {
      tenure.renewed(sentAt, Math.min(ttlMs, renewal.ttlMs));
      lease.apply({ kind: "renewed" });
      this.#listener.renewed(tenure);
    } else {
      const error = asDriverError(renewal.error);
      tenure.failures += 1;
      if (error.outcome === "unknown") tenure.mayArrive(ttlMs);
      tenure.progressed = true;
      tenure.renewAt =
        this.#clock.now() +
        backoffMs(this.#random, tenure.failures, 20, Math.min(500, tenure.ttlMs / 12));
      lease.apply({ kind: "doubt", answered: error.kind === "busy" }, error);
    }
    this.schedule(tenure);
  }
}

/** What the port does not know is a failure: the lease may be there or not. */
function known(renewal: Renewal | undefined): Renewal {
  const kind = renewal?.kind;
  if (renewal !== undefined && (kind === "renewed" || kind === "gone" || kind === "failed"))
    return renewal;
  return { kind: "failed", error: noAnswer(renewal) };
}
