import type { Ask } from "./driver.ts";
import { GuardScopeError, LeaseLostError, UnsupportedError } from "./errors.ts";
import { decodeExport } from "./exported.ts";
import { asBackendError } from "./link.ts";
import type { LiveLease } from "./live-lease.ts";
import type { ManagerEngine } from "./manager.ts";
import { readSequencer } from "./sequencer.ts";
import { Tenure } from "./tenure.ts";

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
  for (let tries = 1; ; tries += 1) {
    const sentAt = engine.holderClock.now();
    try {
      const answer = await engine.link.call(terms.requestTimeoutMs, async (backend, io) => {
        if (backend.exchange === undefined)
          throw new UnsupportedError("This driver has no exchange.");
        return await backend.exchange(oldId, ask, io);
      });
      if (answer.kind === "gone") throw new LeaseLostError(from.name, "taken", from.token);
      const queue = engine.queueOf(from.name);
      const { marginRatio } = settings;
      const tenure = new Tenure(queue, terms, {
        ids,
        granted: answer,
        sentAt,
        late: tries > 1,
        marginRatio,
      });
      if (engine.holderClock.now() < tenure.deadline)
        return queue.begin(tenure, answer.previousToken, startedAt);
      await keeper.giveBack(tenure);
      throw new LeaseLostError(from.name, "expired", from.token);
    } catch (error) {
      // The exchange is the same grant when it is asked again, so a lost reply is asked for once more.
      if (error instanceof LeaseLostError) throw error;
      if (tries >= 3) throw asBackendError(error, "resume");
    }
  }
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
  const tenure = engine.keepalive.tenures().find((each) => each.ids.grantId === grantId);
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
