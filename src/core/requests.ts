import { show } from "./duration.ts";
import type { LeaseLostError } from "./errors.ts";
import { DeadlockError, InvalidArgumentError, type Outcome, StaleTokenError } from "./errors.ts";
import { MAX_TOKEN } from "./fencing-token.ts";
import type { Resources } from "./guard.ts";
import type { FencedLease } from "./lease.ts";
import { LiveLease } from "./live-lease.ts";
import type { AcquireOptions, GuardBinding, RequestExtras } from "./lock-manager.ts";
import type { ManagerEngine, Nest } from "./manager.ts";
import { CALL_OPTIONS } from "./option-names.ts";
import type { Terms } from "./terms.ts";

/** The options of any `request`. */
type AnyRequestOptions = AcquireOptions<never> &
  RequestExtras & {
    readonly ifAvailable?: boolean;
    readonly guard?: GuardBinding<unknown, unknown>;
  };

/** The body of a request; `tx` only where a guard was given. */
export type Body = (lease: LiveLease | null, tx?: unknown) => unknown;

/** Splits `(fn)` and `(options, fn)`. @throws InvalidArgumentError */
function bodyOf(args: readonly unknown[]): {
  options: AnyRequestOptions | undefined;
  body: Body;
} {
  const body = args.length > 1 ? args[1] : args[0];
  if (typeof body !== "function")
    throw new InvalidArgumentError(
      `Expected a function to run while the lock is held, got ${show(body)}.`,
    );
  return {
    options: args.length > 1 ? (args[0] as AnyRequestOptions) : undefined,
    body: body as Body,
  };
}

/** Runs a body while a lock is held. `permits` is the semaphore's count, `null` for a plain lock. */
export async function request(
  engine: ManagerEngine,
  name: string,
  args: readonly unknown[],
  permits: number | null = null,
): Promise<unknown> {
  const { options, body } = bodyOf(args);
  const terms = engine.termsFor(
    name,
    options,
    permits === null ? CALL_OPTIONS.request : CALL_OPTIONS.permitRequest,
    permits,
  );
  checkExtras(options, terms, engine.nest !== undefined);
  engine.checkOpen();
  const nested = nestedIn(engine, name, terms, options);
  if (nested !== undefined) return await runNested(nested, body, options?.guard);
  if (options?.ifAvailable === true) {
    const lease = await engine.tryAcquire(name, terms, options.signal);
    return lease instanceof LiveLease ? await runHeld(engine, lease, body) : await body(null);
  }
  const lease = await engine.acquire(name, terms, options?.signal);
  const guard = options?.guard;
  if (guard === undefined) return await runHeld(engine, lease, body);
  return await runGuarded(engine, lease, { terms, guard, body, signal: options?.signal });
}

/** Under a lease that an enclosing request releases. A refused claim is not repaired: that would release it. */
async function runNested(
  lease: LiveLease | null,
  body: Body,
  guard: GuardBinding<unknown, unknown> | undefined,
): Promise<unknown> {
  if (lease === null || guard === undefined) return await body(lease);
  return await (guard.guard as AnyGuard).run(
    guard.db,
    guard.resource ?? lease.name,
    lease as unknown as FencedLease,
    (tx) => body(lease, tx),
  );
}

function checkExtras(
  options: AnyRequestOptions | undefined,
  terms: Terms,
  detectsReentry: boolean,
): void {
  if (options === undefined) return;
  if (options.reentrant === true && !detectsReentry)
    throw new InvalidArgumentError(
      "Expected `reentrant` only where nested requests are looked for: this manager has `detectReentry: false`.",
    );
  if (options.ifAvailable === true && options.wait !== undefined)
    throw new InvalidArgumentError(
      "Expected no `wait` beside `ifAvailable`: there is nothing to wait for.",
    );
  for (const option of ["ifAvailable", "reentrant"] as const)
    if (options[option] !== undefined && typeof options[option] !== "boolean")
      throw new InvalidArgumentError(
        `Expected \`${option}\` to be true or false, got ${show(options[option])}.`,
      );
  const { guard } = options;
  if (guard === undefined) return;
  if (terms.mode !== "exclusive" || options.ifAvailable === true)
    throw new InvalidArgumentError(
      "Expected `guard` only with an exclusive lease that is waited for.",
    );
  if (typeof (guard as Partial<GuardBinding<unknown, unknown>> | null)?.guard?.run !== "function")
    throw new InvalidArgumentError("Expected `guard` to be { guard, db, resource }.");
}

/** The lease of an enclosing request on the same name: `undefined` when there is none, `null` for a busy `ifAvailable`. */
function nestedIn(
  engine: ManagerEngine,
  name: string,
  terms: Terms,
  options: AnyRequestOptions | undefined,
): LiveLease | null | undefined {
  for (let nest: Nest | undefined = engine.nest?.get(); nest !== undefined; nest = nest.outer) {
    if (nest.name !== name) continue;
    const { lease } = nest;
    if (lease.state !== "held" && lease.state !== "jeopardy") continue;
    const covers = lease.mode === terms.mode || lease.mode === "exclusive";
    if (options?.reentrant === true && covers) return lease;
    if (options?.ifAvailable === true) return null;
    // Readers do not exclude each other, and one more permit may be free.
    if (terms.mode !== "exclusive" && lease.mode === terms.mode) continue;
    throw new DeadlockError(
      covers
        ? `request("${name}") inside request("${name}") would wait for itself; pass { reentrant: true } to share its lease`
        : `request("${name}") for an exclusive lease inside a ${lease.mode} one would wait for itself; release that one first`,
    );
  }
  return undefined;
}

/** Runs a body under a lease, then releases it. The body's outcome wins over a release problem, a loss over both. */
async function runHeld(engine: ManagerEngine, lease: LiveLease, body: Body): Promise<unknown> {
  const outcome = await runBody(engine, lease, body);
  const state = lease.state;
  if (state === "held" || state === "jeopardy") await lease.release();
  const { phase } = lease;
  if (phase.state === "lost") throw lossOf(lease.lostError(phase.reason), outcome);
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}

function lossOf(loss: LeaseLostError, outcome: Outcome): LeaseLostError {
  // A body that rethrows the signal's reason has nothing to add to it.
  if (!("error" in outcome) || outcome.error !== loss) loss.outcome = outcome;
  return loss;
}

/** Runs a body and keeps what it comes to. The process stays alive meanwhile, and `close` waits for it. */
export async function runBody(
  engine: ManagerEngine,
  lease: LiveLease,
  body: Body,
): Promise<Outcome> {
  engine.hold.begin();
  lease.inRequest = true;
  const { nest } = engine;
  const run = async (): Promise<unknown> => body(lease);
  const running = (
    nest === undefined ? run() : nest.run({ name: lease.name, lease, outer: nest.get() }, run)
  ).then(
    (value): Outcome => ({ value }),
    (error: unknown): Outcome => ({ error }),
  );
  engine.running.add(running);
  try {
    return await running;
  } finally {
    lease.inRequest = false;
    engine.running.delete(running);
    engine.hold.end();
  }
}

/** A guard over an asynchronous or a synchronous client: only the body's own type tells them apart. */
interface AnyGuard {
  run(
    db: unknown,
    resources: Resources,
    credential: FencedLease,
    fn: (tx: unknown) => unknown,
  ): Promise<unknown>;
}

interface Guarded {
  readonly terms: Terms;
  readonly guard: GuardBinding<unknown, unknown>;
  readonly body: Body;
  readonly signal: AbortSignal | undefined;
}

/**
 * Claims first, runs the body in the guard's transaction. A first claim that is refused although the lease is held means
 * that the lock's counter went back: released, raised above what the resource has stored, and acquired again, once.
 */
async function runGuarded(
  engine: ManagerEngine,
  lease: LiveLease,
  guarded: Guarded,
  repaired = false,
): Promise<unknown> {
  const { guard, body } = guarded;
  const refusal: { claimed: boolean; stale?: StaleTokenError } = { claimed: false };
  const work = async (held: LiveLease | null): Promise<unknown> => {
    const credential = held as unknown as FencedLease;
    try {
      return await (guard.guard as AnyGuard).run(
        guard.db,
        guard.resource ?? lease.name,
        credential,
        (tx) => {
          refusal.claimed = true;
          return body(held, tx);
        },
      );
    } catch (error) {
      if (!refusal.claimed && error instanceof StaleTokenError && error.step === "claim")
        refusal.stale = error;
      throw error;
    }
  };
  const outcome = await runBody(engine, lease, work);
  const { stale } = refusal;
  const held = lease.state === "held" || lease.state === "jeopardy";
  if (
    stale === undefined ||
    stale.highest === null ||
    stale.highest >= MAX_TOKEN ||
    repaired ||
    !held
  ) {
    return await runHeld(engine, lease, () => {
      if ("error" in outcome) throw outcome.error;
      return outcome.value;
    });
  }
  const next = await repair(engine, lease, stale.highest, guarded);
  if (next === null) throw stale;
  return await runGuarded(engine, next, guarded, true);
}

/** Releases and raises the counter in one conditional step, then acquires again; `null` when the record was not ours any more. */
async function repair(
  engine: ManagerEngine,
  lease: LiveLease,
  highest: bigint,
  { terms, signal }: Guarded,
): Promise<LiveLease | null> {
  const { tenure } = lease;
  lease.apply({ kind: "release" });
  engine.keepalive.stop(tenure);
  tenure.queue.releasing(tenure);
  const returned = await engine.keeper.giveBack(tenure, highest);
  tenure.queue.ended(tenure);
  // Found gone before its deadline: the holder hears of it, as of any loss.
  if (returned.kind === "gone") lease.apply({ kind: "gone", reason: returned.reason });
  if (returned.kind !== "released") return null;
  lease.apply({ kind: "confirmed" });
  return await engine.acquire(lease.name, { ...terms, above: highest }, signal);
}
