import { parseDuration, show, YEAR_MS } from "./duration.ts";
import { InvalidArgumentError, UnsupportedError } from "./errors.ts";
import type { Holder } from "./holder.ts";
import { LiveLease } from "./live-lease.ts";
import type { OnceOptions, OnceResult } from "./lock-manager.ts";
import type { ManagerEngine } from "./manager.ts";
import { CALL_OPTIONS, checkOptions, type Terms, termsOf } from "./options.ts";
import { type Body, runBody } from "./requests.ts";

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
  const startedAt = lease.acquiredAt;
  const outcome = await runBody(engine, lease, body);
  const failed = "error" in outcome;
  await end(engine, lease, failed && retryOnError ? 0 : startedAt + keepMs);
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
  const leftMs = keepUntil - engine.holderClock.now();
  if (leftMs < 1) {
    await lease.release();
    return;
  }
  tenure.keepUntil = keepUntil;
  try {
    await engine.keepalive.renewNow(tenure, Math.max(1, Math.ceil(leftMs)));
  } catch {
    // The record lasts as long as the last renewal said: at worst a little too short or too long.
  }
  engine.keepalive.stop(tenure);
  if (lease.phase.state === "lost") return;
  lease.apply({ kind: "release" });
  lease.apply({ kind: "confirmed" });
  tenure.queue.ended(tenure);
}
