import { show } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import { isToken } from "./fencing-token.ts";
import type { FencedLease } from "./lease.ts";
import { checkName, compareNames } from "./lock-name.ts";
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

/**
 * A guard over an asynchronous client. `Db` opens transactions, `Tx` is one. Guard entries and guarded data live in the
 * same store: verifying in one and writing in another guards nothing.
 */
export interface Guard<Db, Tx> extends GuardUpkeep<Db> {
  /**
   * Claims, runs `fn`, and commits both in one transaction; rolls back when `fn` throws. `fn` may run more than once
   * where the store makes transactions repeat.
   * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError, InvalidArgumentError, BackendError
   */
  run<T>(
    db: Db,
    resources: Resources,
    credential: Credential,
    fn: (tx: Tx) => Promise<T>,
  ): Promise<T>;
  /**
   * Installs the holder's pair at every resource, or at none. Comes before the holder's first read; every holder of
   * the lock claims the same whole set.
   * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError, InvalidArgumentError, BackendError
   */
  claim(db: Db, resources: Resources, credential: Credential): Promise<void>;
  /**
   * Passes only while every resource still has the holder's pair, and makes the transaction fail when that changes
   * before its commit. Decides nothing about what is written outside `tx`.
   * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError, InvalidArgumentError, BackendError
   */
  verify(tx: Tx, resources: Resources, credential: Credential): Promise<void>;
}

/** A guard over a synchronous client (SQLite, memory): like `Guard`, but inside a transaction everything is synchronous. */
export interface SyncGuard<Db, Tx> extends GuardUpkeep<Db> {
  /** As `Guard.run`; a body that returns a promise is refused with `InvalidArgumentError` and rolled back. */
  run<T>(
    db: Db,
    resources: Resources,
    credential: Credential,
    fn: (tx: Tx) => T,
  ): Promise<Awaited<T>>;
  /** As `Guard.claim`. */
  claim(db: Db, resources: Resources, credential: Credential): Promise<void>;
  /** As `Guard.verify`, at once. */
  verify(tx: Tx, resources: Resources, credential: Credential): void;
}

/** What operators do to a guard's entries. */
interface GuardUpkeep<Db> {
  /**
   * Moves a resource to another scope, for a lock that moved to another backend, namespace or name. Doing it again
   * changes nothing; moving back keeps what `from` had reached. Stop the holders of `from` first: their lock does not
   * exclude those of `to`.
   * @throws GuardScopeError when the entry belongs to neither, InvalidArgumentError
   */
  adopt(db: Db, resource: string, adoption: Adoption): Promise<void>;
  /**
   * Deletes entries last claimed or verified before `before`, and resolves to their number. Their tokens stay refused
   * through a floor per scope, which is kept for good. A holder whose entry went must claim anew with a later token.
   */
  purge(db: Db, before: Date): Promise<number>;
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
  /** Milliseconds that a lease of this process has left; Infinity for what came from elsewhere. */
  remainingMs(): number;
}

/** A deliberate move of an entry to another scope: the entry of `from` becomes one of `to` with at least `floor`. */
export interface Adoption {
  readonly from: string;
  readonly to: string;
  /** Tokens of `to` at or below this stay refused. */
  readonly floor: bigint;
}

/** What came from another process has no deadline that this one could know. */
const ELSEWHERE = { checkDeadline: (): void => undefined, remainingMs: (): number => Infinity };

/** A lease of this process, as it is shown at a resource. */
class LeasePresentation implements Presentation {
  readonly token: bigint;
  readonly grantId: string;
  readonly scope: string;
  readonly #lease: FencedLease;

  constructor(lease: FencedLease) {
    this.token = lease.token;
    this.grantId = lease.grantId;
    this.scope = lease.scope;
    this.#lease = lease;
  }

  checkDeadline(): void {
    this.#lease.assertHeld();
  }

  remainingMs(): number {
    return this.#lease.remainingMs();
  }
}

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
    return { token, grantId, scope, ...ELSEWHERE };
  }
  if (typeof credential !== "object" || (credential as unknown) === null)
    throw refused(typeof credential);
  if ("assertHeld" in credential) {
    if ((credential.mode as string) !== "exclusive")
      throw refused(`a lease in mode "${credential.mode}"`);
    if (!isToken(credential.token)) throw refused("a lease without a fencing token");
    return new LeasePresentation(credential);
  }
  const { token, grantId, scope } = credential;
  if ((credential.trust as unknown) !== true) throw refused("a bare pair without `trust: true`");
  if (!isToken(token) || !isId(grantId) || !isId(scope))
    throw refused("a pair with a missing or impossible part");
  return { token, grantId, scope, ...ELSEWHERE };
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

/**
 * The resources as a list without repeats, sorted by encoded name: one order for every holder.
 * @throws InvalidArgumentError for an empty list or an impossible name
 */
export function resourceList(resources: Resources): readonly string[] {
  const given: unknown = typeof resources === "string" ? [resources] : resources;
  if (!Array.isArray(given) || given.length === 0)
    throw new InvalidArgumentError(
      `Expected a resource, or a list of at least one, got ${show(resources)}.`,
    );
  const list = new Set<string>();
  for (const resource of given as readonly unknown[]) {
    checkName(resource, "resource");
    list.add(resource);
  }
  return list.size === 1 ? [...list] : [...list].sort(compareNames);
}
