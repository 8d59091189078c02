/*
 * The check of one request, the same for every server framework.
 *
 * State: the entries are the inner guard's, beside the data; here is only what this process has seen (newest.ts).
 * Order: read the header, check its signature, that it is an exclusive lease's, and that name and scope are those of
 * the lock that the server expects; refuse what is older than the newest seen; then, on the first request of a grant,
 * claim at the store. A later one needs no claim: the pair either still stands, or the handler's verify refuses it.
 * Why that suffices: nothing here lets a write pass. The handler verifies inside the transaction that writes, and a
 * claim that was accepted before its first read makes that read current.
 * What breaks it: handlers that write without `verify`, or verify in another transaction than the one that writes;
 * reads under a lease that come without the header, or are answered by a cache or a replica.
 */
import { InvalidArgumentError } from "../../core/errors.ts";
import {
  type Guard,
  guardKeys,
  type Presented,
  type Resources,
  resourceList,
  type SyncGuard,
} from "../../core/guard.ts";
import { type LockOrigin, scopeOf } from "../../core/scope.ts";
import { readSequencer, type SequencerKey, type SequencerPayload } from "../../core/sequencer.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { SEQUENCER_HEADER } from "./header.ts";
import { Newest } from "./newest.ts";
import {
  malformed,
  missing,
  type Problem,
  problemOf,
  problemOfClaim,
  wrongLock,
} from "./problem.ts";

/** Which requests must carry the header: those that are not GET, HEAD, OPTIONS or TRACE, all, or none. */
export type Requirement = "writes" | "always" | "never";

/** Options of an HTTP guard. `Db` and `Tx` are those of the inner guard. */
export interface HttpGuardOptions<Db, Tx, V> {
  /** The guard of the store that has the data: it decides. Its own `keys` are not used. */
  readonly guard: InnerGuard<Db, Tx, V>;
  /** What the inner guard claims with: a pool, a connection, a store. */
  readonly db: Db;
  /**
   * Keys to check signatures with, several while they are rotated. With keys an unsigned sequencer is refused; without
   * them everybody who can reach the server can name any token.
   */
  readonly keys?: readonly SequencerKey[];
  /**
   * The lock managers whose leases are accepted: driver name, and `backendId` and `namespace` where they are not the
   * defaults. Without it the scope is checked by the store only, from a resource's first claim on.
   */
  readonly locks?: {
    readonly driver: string;
    readonly backendId?: string;
    readonly namespace?: string;
  };
  /** Which requests must come under a lease; `"writes"` by default. A header that is there is checked in any case. */
  readonly require?: Requirement;
  /** For how many resources the newest claim is kept in memory, for an early 409; 10,000 by default, 0 for none. */
  readonly remember?: number;
}

/** What an HTTP guard needs of the guard within. */
export interface InnerGuard<Db, Tx, V> extends Pick<Guard<Db, Tx> | SyncGuard<Db, Tx>, "claim"> {
  verify(tx: Tx, resources: Resources, credential: Presented): V;
}

/** A request under a lease that passed the check, for its handler. */
export interface Fence<Tx, V> {
  /** Name, mode, token, grant id and scope of the lease. */
  readonly sequencer: SequencerPayload;
  /** What was claimed for it. */
  readonly resources: readonly string[];
  /** The header as it came, to hand on to the next server. */
  readonly header: string;
  /**
   * Passes only while the claim stands, and makes `tx` fail when that changes before its commit. Only this decides:
   * call it inside the transaction that writes.
   * @throws StaleTokenError, GuardScopeError, BackendError
   */
  verify(tx: Tx): V;
}

/** What the check needs to know of a request. */
export interface Incoming {
  readonly method: string;
  readonly header: string | readonly string[] | undefined;
  /** The lock that it must be made under, where the route says so. */
  readonly lock: (() => string) | undefined;
  /** The resources that it is about; the lock's name by default. */
  readonly resource: ((sequencer: SequencerPayload) => Resources) | undefined;
  readonly require: Requirement | undefined;
}

/** What became of a request: `fence` is `null` where it has no lease and needs none. */
export type Checked<Tx, V> =
  | { readonly passed: true; readonly fence: Fence<Tx, V> | null }
  | { readonly passed: false; readonly problem: Problem };

interface Read {
  readonly sequencer: SequencerPayload;
  readonly resources: readonly string[];
  readonly text: string;
}

const SAFE: readonly string[] = ["GET", "HEAD", "OPTIONS", "TRACE"];
const REQUIREMENTS: readonly unknown[] = ["writes", "always", "never", undefined];
const REMEMBERED = 10_000;
/** Headers that are not decoded and verified again; at most 2 KiB each. */
const VERIFIED = 1000;

/** Checks requests against one inner guard. */
export class Checker<Db, Tx, V> {
  readonly #guard: InnerGuard<Db, Tx, V>;
  readonly #db: Db;
  readonly #keys: readonly SequencerKey[];
  readonly #origin: LockOrigin | null;
  readonly #require: Requirement;
  readonly #newest: Newest;
  readonly #verified = new Map<string, SequencerPayload>();

  /** @throws InvalidArgumentError for impossible options */
  constructor(options: HttpGuardOptions<Db, Tx, V>) {
    const { guard, db, locks, require = "writes", remember = REMEMBERED } = options;
    if (typeof (guard as Partial<typeof guard> | null)?.claim !== "function")
      throw new InvalidArgumentError(
        "Expected `guard` to be the guard of the store with the data.",
      );
    checkRequirement(require);
    if (!Number.isSafeInteger(remember) || remember < 0)
      throw new InvalidArgumentError("Expected `remember` to be a whole number from 0 on.");
    this.#guard = guard;
    this.#db = db;
    this.#keys = guardKeys(options.keys === undefined ? {} : { keys: options.keys });
    this.#origin = locks === undefined ? null : originOf(locks);
    this.#require = require;
    this.#newest = new Newest(remember);
  }

  /**
   * Checks one request. Resolves to a refusal for what the client sent; rejects for what only the server can mend, such
   * as a store that is set up wrong.
   */
  async check(incoming: Incoming): Promise<Checked<Tx, V>> {
    const { method, header } = incoming;
    if (header === undefined) {
      const required = isRequired(incoming.require ?? this.#require, method);
      if (required) return { passed: false, problem: missing(SEQUENCER_HEADER) };
      return { passed: true, fence: null };
    }
    const read = this.#read(header, incoming);
    if ("status" in read) return { passed: false, problem: read };
    const { sequencer, resources, text } = read;
    const { token, grantId, scope } = sequencer;
    const mine: Presented = { token, grantId, scope, trust: true };
    try {
      if (!this.#newest.knows(resources, mine)) {
        await this.#guard.claim(this.#db, resources, mine);
        this.#newest.accepted(resources, mine);
      }
    } catch (error) {
      const problem = problemOfClaim(error);
      if (problem === null) throw error;
      return { passed: false, problem };
    }
    return { passed: true, fence: this.#fence(sequencer, resources, text, mine) };
  }

  /** What the client sent, or why it is refused without asking anybody. */
  #read(header: string | readonly string[], { lock, resource }: Incoming): Read | Problem {
    try {
      if (typeof header !== "string")
        throw new InvalidArgumentError(`Expected one ${SEQUENCER_HEADER} header, got several.`);
      const sequencer = this.#verified.get(header) ?? readSequencer(header, this.#keys, systemMac);
      const { name, mode } = sequencer;
      if (mode !== "exclusive")
        throw new InvalidArgumentError(
          `Expected the sequencer of an exclusive lease, got one in mode "${mode}": several rightful holders would refuse each other.`,
        );
      const expected = lock === undefined ? name : lock();
      if (expected !== name)
        return wrongLock(`Expected a lease of the lock "${expected}", got one of "${name}".`);
      if (!this.#verified.has(header)) {
        if (!this.#isOurs(sequencer))
          return wrongLock(
            `Expected a lease of "${name}" from this server's lock manager: this one has another store, backendId or namespace.`,
          );
        this.#remember(header, sequencer);
      }
      const resources = resourceList(resource === undefined ? name : resource(sequencer));
      return { sequencer, resources, text: header };
    } catch (error) {
      if (error instanceof InvalidArgumentError) return malformed(error);
      throw error;
    }
  }

  #isOurs({ name, scope }: SequencerPayload): boolean {
    return this.#origin === null || systemMac.equal(scopeOf(this.#origin, name, systemMac), scope);
  }

  /** A lease sends the same header many times. Only what was verified gets in, so nobody can fill it without a key. */
  #remember(header: string, sequencer: SequencerPayload): void {
    this.#verified.set(header, sequencer);
    if (this.#verified.size > VERIFIED)
      for (const oldest of this.#verified.keys()) {
        this.#verified.delete(oldest);
        break;
      }
  }

  #fence(
    sequencer: SequencerPayload,
    resources: readonly string[],
    header: string,
    mine: Presented,
  ): Fence<Tx, V> {
    const forget = (error: unknown): never => {
      if (problemOf(error) !== null) this.#newest.refused(resources, mine);
      throw error;
    };
    return {
      sequencer,
      resources,
      header,
      verify: (tx) => {
        try {
          const verified = this.#guard.verify(tx, resources, mine);
          // The same kind of promise, or none, as the inner guard gives.
          return verified instanceof Promise ? (verified.catch(forget) as V) : verified;
        } catch (error) {
          return forget(error);
        }
      },
    };
  }
}

function originOf(locks: NonNullable<HttpGuardOptions<never, never, never>["locks"]>): LockOrigin {
  const { driver, backendId = "", namespace = "default" } = locks;
  for (const part of [driver, backendId, namespace] as readonly unknown[])
    if (typeof part !== "string")
      throw new InvalidArgumentError(
        "Expected `locks` to be { driver, backendId, namespace } as the lock manager has them.",
      );
  return { driver, backendId, namespace };
}

/** @throws InvalidArgumentError for another word */
export function checkRequirement(require: unknown): void {
  if (!REQUIREMENTS.includes(require))
    throw new InvalidArgumentError('Expected `require` to be "writes", "always" or "never".');
}

function isRequired(require: Requirement, method: string): boolean {
  if (require === "writes") return !SAFE.includes(method.toUpperCase());
  return require === "always";
}
