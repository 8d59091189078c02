import { GuardScopeError, InvalidArgumentError, StaleTokenError } from "./errors.ts";
import { isToken } from "./fencing-token.ts";
import type { FencedLease } from "./lease.ts";
import { checkName } from "./lock-name.ts";
import type { Mac } from "./mac.ts";
import { checkKeys, isId, readSequencer, type SequencerKey } from "./sequencer.ts";

/** A pair from another process: an environment variable, a queue message. */
export interface Presented {
  readonly token: bigint;
  readonly grantId: string;
  readonly scope: string;
  /** Whoever passes a bare pair vouches for it. */
  readonly trust: true;
}

/** What a holder shows at the resource: its lease, its sequencer, or the bare pair. */
export type Credential = FencedLease | Presented | string;

/** One resource, or the whole set that every holder of the lock claims, in one order. */
export type Resources = string | readonly string[];

/** Options that every guard takes. */
export interface GuardOptions {
  /** Keys to check sequencers with. With keys an unsigned sequencer is refused. */
  readonly keys?: readonly SequencerKey[];
}

/** A guard over an asynchronous client. `Db` opens transactions, `Tx` is one. */
export interface Guard<Db, Tx> {
  run<T>(
    db: Db,
    resources: Resources,
    credential: Credential,
    fn: (tx: Tx) => Promise<T>,
  ): Promise<T>;
  claim(db: Db, resources: Resources, credential: Credential): Promise<void>;
  verify(tx: Tx, resources: Resources, credential: Credential): Promise<void>;
}

/** A guard over a synchronous client (SQLite, memory): inside `run` everything is synchronous. */
export interface SyncGuard<Db, Tx> {
  run<T>(db: Db, resources: Resources, credential: Credential, fn: (tx: Tx) => T): Promise<T>;
  claim(db: Db, resources: Resources, credential: Credential): Promise<void>;
  verify(tx: Tx, resources: Resources, credential: Credential): void;
}

/** What a guard stores per resource, and what a holder presents. */
export interface Claim {
  readonly token: bigint;
  readonly grantId: string;
  readonly scope: string;
}

/** A credential that was read: the claim, and the check that the local deadline has not passed. */
export interface Presentation extends Claim {
  /** @throws LeaseLostError, LeaseReleasedError when it is a lease of this process that is over */
  checkDeadline(): void;
}

/** A deliberate move of an entry to another scope: the entry of `from` becomes one of `to` with at least `floor`. */
export interface Adoption {
  readonly from: string;
  readonly to: string;
  /** Tokens of `to` at or below this stay refused. */
  readonly floor: bigint;
}

const ALWAYS = (): void => undefined;

/**
 * Reads a credential.
 * @throws InvalidArgumentError for a shared lease, a permit, a lease without a token, a bad sequencer, an unvouched pair
 */
export function presentationOf(
  credential: Credential,
  keys: readonly SequencerKey[],
  mac: Mac,
): Presentation {
  if (typeof credential === "string") {
    const { token, grantId, scope, mode } = readSequencer(credential, keys, mac);
    if (mode !== "exclusive") throw refused(`a sequencer of a lease in mode "${mode}"`);
    return { token, grantId, scope, checkDeadline: ALWAYS };
  }
  if (typeof credential !== "object" || (credential as unknown) === null)
    throw refused(typeof credential);
  const { token, grantId, scope } = credential;
  if ("assertHeld" in credential) {
    if ((credential.mode as string) !== "exclusive")
      throw refused(`a lease in mode "${credential.mode as string}"`);
    if (!isToken(token)) throw refused("a lease without a fencing token");
    return { token, grantId, scope, checkDeadline: credential.assertHeld.bind(credential) };
  }
  if ((credential.trust as unknown) !== true) throw refused("a bare pair without `trust: true`");
  if (!isToken(token) || !isId(grantId) || !isId(scope))
    throw refused("a pair with a missing or impossible part");
  return { token, grantId, scope, checkDeadline: ALWAYS };
}

function refused(what: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `Expected an exclusive lease with a fencing token, its sequencer, or { token, grantId, scope, trust: true }, got ${what}.`,
  );
}

/** @throws InvalidArgumentError for a key that could not protect anything; returns the keys */
export function guardKeys(options: GuardOptions): readonly SequencerKey[] {
  const keys = options.keys ?? [];
  checkKeys(keys);
  return keys;
}

/** The resources as a sorted list without repeats: one order for every holder. */
export function resourceList(resources: Resources): readonly string[] {
  const list = [...new Set(typeof resources === "string" ? [resources] : resources)];
  if (list.length === 0)
    throw new InvalidArgumentError("Expected at least one resource, got none.");
  for (const resource of list) checkName(resource, "resource");
  return list.sort();
}

/** What stands at a resource: its entry, or for a missing one the floor that a purge left (0: none). */
export interface Standing {
  readonly entry: Claim | null;
  readonly floor: bigint;
}

/**
 * Decides a claim: passes when the token rises above what is stored, or is the same grant's again.
 * @throws StaleTokenError, GuardScopeError
 */
export function decideClaim(resource: string, standing: Standing, claim: Claim): void {
  const { entry, floor } = standing;
  if (entry !== null && entry.scope !== claim.scope)
    throw new GuardScopeError(resource, entry.scope, claim.scope);
  const highest = entry === null || floor > entry.token ? floor : entry.token;
  if (claim.token > highest) return;
  if (entry !== null && claim.token === entry.token && claim.grantId === entry.grantId) return;
  throw new StaleTokenError({ resource, presented: claim.token, highest, step: "claim" });
}

/**
 * Decides a verify: passes only while the stored pair is the presented one.
 * @throws StaleTokenError, GuardScopeError
 */
export function decideVerify(resource: string, entry: Claim | null, claim: Claim): void {
  if (entry !== null && entry.scope !== claim.scope)
    throw new GuardScopeError(resource, entry.scope, claim.scope);
  if (entry !== null && entry.token === claim.token && entry.grantId === claim.grantId) return;
  throw new StaleTokenError({
    resource,
    presented: claim.token,
    highest: entry?.token ?? null,
    step: "verify",
  });
}
