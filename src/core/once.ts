import { backoffMs } from "./backoff.ts";
import { parseDuration, show, YEAR_MS } from "./duration.ts";
import { InvalidArgumentError, type LostReason, UnsupportedError } from "./errors.ts";
import type { Holder } from "./holder.ts";
import { LiveLease } from "./live-lease.ts";
import type { OnceOptions, OnceResult } from "./lock-manager.ts";
import type { ManagerEngine } from "./manager.ts";
import { CALL_OPTIONS, checkOptions } from "./option-names.ts";
import { type Body, runBody } from "./requests.ts";
import type { Tenure } from "./tenure.ts";
import { type Terms, termsOf } from "./terms.ts";

/** Runs a body unless somebody did within `keep`. The record of the run is a lease that outlives its holder. */
export async function once(
  engine: ManagerEngine,
  name: string,
  options: OnceOptions,
  body: Body,
): Promise<OnceResult<unknown>> {
  checkOptions(options, CALL_OPTIONS.once);
  if (engine.declared.retains === "no")
    throw new UnsupportedError(
      "This driver keeps no record after its holder: `once` needs a store that does.",
    );
  if (typeof body !== "function")
    throw new InvalidArgumentError(`Expected a function to run, got ${show(body)}.`);
  const keepMs = parseDuration("keep", options.keep, { min: 50, max: YEAR_MS });
  const retryOnError = options.retryOnError ?? false;
  if (typeof retryOnError !== "boolean")
    throw new InvalidArgumentError(
      `Expected \`retryOnError\` to be true or false, got ${show(retryOnError)}.`,
    );
  const { ttl, label, metadata } = options;
  const terms: Terms = {
    ...termsOf(
      {
        ...(ttl === undefined ? {} : { ttl }),
        ...(label === undefined ? {} : { label }),
        ...(metadata === undefined ? {} : { metadata }),
      },
      engine.settings,
      engine.declared,
    ),
    keepalive: "auto",
    maxHoldMs: Infinity,
    lockDelayMs: 0,
  };
  const record = recordName(name, options.at);
  engine.termsFor(record, undefined, []);
  // A process that dies has run, unless errors are retried: so the record is made to last from the start.
  const first = retryOnError ? terms : { ...terms, ttlMs: Math.max(terms.ttlMs, keepMs) };
  const lease = await engine.tryAcquire(record, first);
  if (!(lease instanceof LiveLease)) return { ran: false, holder: lease.holder ?? NOBODY };
  lease.tenure.keepRecord(terms.ttlMs, retryOnError ? 0 : engine.holderClock.now() + keepMs);
  engine.keepalive.schedule(lease.tenure);
  return await engine.track(run(engine, lease, body, { keepMs, retryOnError }));
}

async function run(
  engine: ManagerEngine,
  lease: LiveLease,
  body: Body,
  { keepMs, retryOnError }: { readonly keepMs: number; readonly retryOnError: boolean },
): Promise<OnceResult<unknown>> {
  const outcome = await runBody(engine, lease, body);
  const failed = "error" in outcome;
  await end(engine, lease, failed && retryOnError ? 0 : lease.acquiredAt + keepMs);
  const { phase } = lease;
  if (phase.state === "lost") {
    const loss = lease.lostError(phase.reason);
    if (!failed || outcome.error !== loss) loss.outcome = outcome;
    throw loss;
  }
  if (failed) throw outcome.error;
  return { ran: true, value: outcome.value };
}

const NOBODY: Holder = { label: "", host: "", pid: 0, metadata: {} };

/** Runs of one scheduled time share one record, whatever each clock says. */
function recordName(name: string, at: Date | string | undefined): string {
  if (at === undefined) return name;
  const date = new Date(at);
  if (Number.isNaN(date.getTime()))
    throw new InvalidArgumentError(
      `Expected \`at\` to be a date or an ISO 8601 time, got ${show(at)}.`,
    );
  return `${name}@${date.toISOString()}`;
}

/** Lets the record stay until `keepUntil`, or frees it when that is over. */
async function end(engine: ManagerEngine, lease: LiveLease, keepUntil: number): Promise<void> {
  const state = lease.state;
  if (state !== "held" && state !== "jeopardy") return;
  const { tenure } = lease;
  if (keepUntil - engine.holderClock.now() < 1) {
    await lease.release();
    return;
  }
  // The holder is done: from here on the record has no deadline that could be missed, only a time to stay.
  const kept = tenure.keepUntil > 0;
  engine.keepalive.stop(tenure);
  lease.apply({ kind: "release" });
  while (tenure.renewing !== undefined) await tenure.renewing;
  const loss = await leaveRecord(engine, tenure, keepUntil, kept);
  lease.apply(loss === null ? { kind: "confirmed" } : { kind: "gone", reason: loss });
  tenure.queue.ended(tenure);
}

/**
 * Renews a record for the last time; why it is lost, if it is. `kept`: every renewal so far made it last that long, so
 * that this one only takes back what was too much.
 */
async function leaveRecord(
  engine: ManagerEngine,
  tenure: Tenure,
  keepUntil: number,
  kept: boolean,
): Promise<LostReason | null> {
  for (let tries = 1; ; tries += 1) {
    const ref = tenure.ref(Math.max(1, Math.ceil(keepUntil - engine.holderClock.now())));
    try {
      const [renewal] = await engine.link.call(tenure.terms.requestTimeoutMs, async (backend, io) =>
        backend.renew([ref], io),
      );
      if (renewal?.kind === "renewed") return null;
      if (renewal?.kind === "gone") return renewal.reason;
    } catch {
      // As good as a renewal that failed.
    }
    if (kept) return null;
    const pauseMs = backoffMs(engine.random, tries, 20, 500);
    if (engine.holderClock.now() + pauseMs >= tenure.deadline) return "unreachable";
    await new Promise<void>((resolve) => {
      engine.clock.timer(pauseMs, resolve, true);
    });
  }
}
