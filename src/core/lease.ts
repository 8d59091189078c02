import type { Fencing, Mode } from "./capabilities.ts";
import type { Duration } from "./duration.ts";
import type { Fenced, FencingToken } from "./fencing-token.ts";
import type { Holder } from "./holder.ts";
import type { LeaseState } from "./lease-state.ts";

/** What a release came to. `unknown`: it may or may not have been applied; the backend frees it after the ttl. */
export type ReleaseOutcome = "released" | "already-lost" | "unknown";

/** Everything that a lease has on every driver and in every mode. */
export interface LeaseBase<M extends Mode = Mode> extends AsyncDisposable {
  readonly name: string;
  readonly mode: M;
  /**
   * The public id of the grant, 27 characters. Leases that a process hands on inside itself share it and differ in
   * their token.
   */
  readonly grantId: string;
  /** Hash of backend, namespace and lock name: only tokens of one scope compare. */
  readonly scope: string;
  readonly holder: Holder;
  /** The previous holder ended without a release: look for what it left half done. */
  readonly takenOver: boolean;
  /** What another server needs to check this lease's writes; signed where the manager has keys. */
  readonly sequencer: string;
  /**
   * Aborts with a `LeaseLostError` when the lease is lost. Every read of this property checks the clock first. A signal
   * that was read earlier aborts at the event loop's first turn after the deadline, not during a blocked one.
   */
  readonly signal: AbortSignal;
  /** Advice, computed from the clock at each read: only a guard at the resource can decide. */
  readonly state: LeaseState;
  /** Milliseconds for which this holder may still act without a renewal; 0 when it may not. */
  remainingMs(): number;
  /**
   * @throws LeaseLostError when the lease can no longer be proven held
   * @throws LeaseReleasedError after `release` or `export`
   */
  assertHeld(): void;
  /**
   * Renews if less than `atLeast` remains.
   * @throws LeaseLostError, or a BackendError when the renewal failed and less than `atLeast` remains
   */
  ensure(atLeast: Duration): Promise<void>;
  /** Reports progress: with `keepalive: "progress"` the lease is renewed only as long as the job does so. */
  progress(): void;
  /**
   * Renews now, for `ttl` from now on where it is given. Never creates, never changes the token.
   * @throws LeaseLostError, LeaseReleasedError, or a BackendError (the lease may still be held then)
   */
  renew(ttl?: Duration): Promise<void>;
  /** Gives the lease back. Never throws for a backend's fault; a second call gives the same answer, or tries again after `unknown`. */
  release(): Promise<ReleaseOutcome>;
  /**
   * Ends the lease here, without a release, and returns a secret string with which one other process can `resume` it.
   * @throws UnsupportedError for a shared lease or a permit, and on a driver without transfer
   */
  export(): Promise<string>;
  /** Plain data for logs, tokens as decimal strings. */
  toJSON(): Record<string, unknown>;
}

/** The part of a lease that only a driver with fencing gives. */
export interface WithToken<F extends Fenced> {
  readonly token: FencingToken<F>;
  /** The token of the grant before this one, where the store still knew it. */
  readonly previousToken: FencingToken<F> | null;
}

/** What a lease gains from its driver's fencing. No conditional type: an indexed access stays covariant. */
interface ByFencing {
  readonly durable: WithToken<"durable">;
  readonly volatile: WithToken<"volatile">;
  readonly none: unknown;
}

/** One entry per mode, so that a lease of unknown mode is a union that `lease.mode === "exclusive"` narrows. */
interface ByMode<F extends Fencing> {
  readonly exclusive: LeaseBase<"exclusive"> & ByFencing[F];
  readonly shared: LeaseBase<"shared"> & ByFencing[F];
  readonly permits: LeaseBase<"permits">;
}

/**
 * The right held by one holder. `token` is a property only where `F` cannot be "none": a driver known only at
 * run time (`Fencing`, from `connect(url)`) has no token in its type until it is required.
 */
export type Lease<F extends Fencing = Fencing, M extends Mode = Mode> = ByMode<F>[M];

/** A lease that a guard takes: exclusive, and with a token. */
export type FencedLease = Lease<Fenced, "exclusive">;

/** All of several leases, or none. */
export interface LeaseSet<F extends Fencing = Fencing, M extends Mode = Mode>
  extends AsyncDisposable {
  /** In the order in which they were taken: sorted by encoded name. */
  readonly leases: readonly Lease<F, M>[];
  get(name: string): Lease<F, M> | undefined;
  /** Aborts as soon as one of the leases is lost. */
  readonly signal: AbortSignal;
  release(): Promise<ReadonlyMap<string, ReleaseOutcome>>;
}
