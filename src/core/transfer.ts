import { backoffMs } from "./backoff.ts";
import { type Ask, DriverError } from "./driver.ts";
import { GuardScopeError, LeaseLostError, ManagerClosedError, UnsupportedError } from "./errors.ts";
import { decodeExport, type ExportedLease } from "./exported.ts";
import { asBackendError, asDriverError } from "./link.ts";
import type { LiveLease } from "./live-lease.ts";
import type { ManagerEngine } from "./manager.ts";
import { readSequencer } from "./sequencer.ts";
import { Tenure } from "./tenure.ts";
import type { Terms } from "./terms.ts";

/** How often a lost reply is asked for. */
const TRIES = 3;

/**
 * Takes over a lease that another process exported: its record gets a new secret, grant id and larger token, once.
 * @throws LeaseLostError when the record is not there any more: it lapsed, or somebody resumed it before
 */
export async function resume(engine: ManagerEngine, exported: string): Promise<LiveLease> {
  engine.checkOpen();
  const from = decodeExport(exported);
  const { declared, settings, keeper } = engine;
  if (declared.transfer === "no")
    throw new UnsupportedError("Leases of this driver cannot be handed to another process.");
  const scope = keeper.scopeOf(from.name);
  if (scope !== from.scope) throw new GuardScopeError(from.name, from.scope, scope);
  const terms = {
    ...settings.defaults,
    ttlMs: from.ttlMs,
    lockDelayMs: from.lockDelayMs,
    requestTimeoutMs: settings.requestTimeoutMs ?? Math.min(from.ttlMs / 3, 5000),
  };
  return await engine.track(exchange(engine, from, terms));
}

async function exchange(
  engine: ManagerEngine,
  from: ExportedLease,
  terms: Terms,
): Promise<LiveLease> {
  const { keeper } = engine;
  const ids = engine.newIds();
  const ask: Ask = {
    name: from.name,
    mode: "exclusive",
    permits: 1,
    grantId: ids.grantId,
    holder: terms.holderText,
    ttlMs: from.ttlMs,
    lockDelayMs: from.lockDelayMs,
    tokens: 1,
    join: "no",
  };
  const startedAt = engine.clock.mono();
  const oldId = engine.grantIdOf(from.secret);
  let late = false;
  for (let tries = 1; ; tries += 1) {
    const sentAt = engine.holderClock.now();
    try {
      const answer = await engine.link.call(terms.requestTimeoutMs, async (backend, io) => {
        if (backend.exchange === undefined)
          throw new DriverError("config", "not-applied", "this driver has no exchange");
        return await backend.exchange(oldId, ask, io);
      });
      if (answer.kind === "gone") throw new LeaseLostError(from.name, "taken", from.token);
      const queue = engine.queueOf(from.name);
      const grant = { ids, granted: answer, sentAt, late };
      const tenure = new Tenure(queue, terms, grant);
      if (engine.holderClock.now() < tenure.deadline && !engine.closing)
        return queue.begin(tenure, answer.previousToken, startedAt);
      await keeper.giveBack(tenure);
      if (engine.closing) throw new ManagerClosedError();
      throw new LeaseLostError(from.name, "expired", from.token);
    } catch (error) {
      // The exchange is the same grant when it is asked again, so a lost reply is asked for once more.
      if (error instanceof LeaseLostError || error instanceof ManagerClosedError) throw error;
      const failure = asDriverError(error);
      late ||= failure.outcome === "unknown";
      if (tries >= TRIES || failure.kind === "config") {
        if (late) void undo(engine, ask, terms.requestTimeoutMs);
        throw asBackendError(failure, "resume");
      }
    }
    const pauseMs = backoffMs(engine.random, tries, 25, 250);
    await new Promise<void>((resolve) => {
      engine.clock.timer(pauseMs, resolve, true);
    });
  }
}

/** What may have become a lease of ours would be nobody's for a whole ttl. */
async function undo(engine: ManagerEngine, ask: Ask, timeoutMs: number): Promise<void> {
  const { name, mode, grantId, ttlMs } = ask;
  const ref = { name, mode, grantId, ttlMs, lockDelayMs: 0 };
  await engine.returns.give({
    ref,
    late: true,
    timeoutMs,
    budgetMs: 0,
    livesMs: ttlMs,
    oursUntilMs: Infinity,
  });
}

/** Asks the backend whether the grant of a sequencer still stands. */
export async function check(
  engine: ManagerEngine,
  sequencer: string,
): Promise<"current" | "superseded" | "same-tenure"> {
  engine.checkOpen();
  const { settings, mac, keeper } = engine;
  const { name, token, grantId, scope } = readSequencer(sequencer, settings.keys, mac);
  const own = keeper.scopeOf(name);
  if (scope !== own) throw new GuardScopeError(name, scope, own);
  const tenure = engine.keepalive.tenures().find((each) => each.grantId === grantId);
  try {
    const record = await engine.link.call(settings.defaults.requestTimeoutMs, async (backend, io) =>
      backend.inspect(name, io),
    );
    const grant = record.holders.find((holder) => holder.grantId === grantId);
    if (grant?.token == null || token < grant.token || token > (grant.lastToken ?? grant.token))
      return "superseded";
    // Only the process that hands the lock on knows which of its leases is the live one.
    if (tenure !== undefined) return tenure.token === token ? "current" : "same-tenure";
    return grant.lastToken === null || grant.lastToken === grant.token ? "current" : "same-tenure";
  } catch (error) {
    throw asBackendError(error, "check");
  }
}
