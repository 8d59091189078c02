/** Distributed locks: leases, fencing that holds at the resource, and types that say what a backend can promise. */
import { type CreateLockManager, lockManagerFactory } from "./core/create-lock-manager.ts";
import { systemPlatform } from "./runtime/platform.ts";

/**
 * Makes a lock manager over a driver, on this host's clock and chance.
 * @throws InvalidArgumentError for an option that can never be right
 * @example
 * const locks = createLockManager(memoryDriver());
 * await locks.request("nightly", async (lease) => { lease.signal.throwIfAborted(); });
 * await locks.close();
 */
export const createLockManager: CreateLockManager = lockManagerFactory(systemPlatform);

export type {
  Capabilities,
  Declaration,
  Fencing,
  LeaseClock,
  Liveness,
  Mints,
  Mode,
  Narrowed,
  Requirements,
  Retains,
  Satisfiable,
  Transfer,
  Waiting,
} from "./core/capabilities.ts";
export type { Clock, Timer } from "./core/clock.ts";
export type { CreateLockManager } from "./core/create-lock-manager.ts";
export type {
  Answer,
  Ask,
  Backend,
  Busy,
  Driver,
  DriverContext,
  Finding,
  GoneReason,
  Granted,
  GrantRef,
  GuaranteeCell,
  GuaranteeRow,
  Host,
  Io,
  LockRecord,
  Notice,
  Release,
  Renewal,
} from "./core/driver.ts";
export { DriverError } from "./core/driver.ts";
export type { Duration } from "./core/duration.ts";
export {
  AcquireTimeoutError,
  BackendConfigError,
  BackendError,
  type BackendFacts,
  BackendTimeoutError,
  BackendUnavailableError,
  DeadlockError,
  type ErrorCode,
  GuardScopeError,
  IdempotencyConflictError,
  IdempotencyInProgressError,
  InvalidArgumentError,
  LeaseLostError,
  LeaseReleasedError,
  type LostReason,
  ManagerClosedError,
  type Outcome,
  PermitMismatchError,
  QuorumError,
  RingfenceError,
  StaleTokenError,
  UnsupportedError,
} from "./core/errors.ts";
export type { LockEvent, LockEventName, LockEvents } from "./core/events.ts";
export type { Fenced, FencingToken } from "./core/fencing-token.ts";
export type { Credential, Guard, Presented, Resources, SyncGuard } from "./core/guard.ts";
export type { Holder } from "./core/holder.ts";
export type {
  FencedLease,
  Lease,
  LeaseBase,
  LeaseSet,
  ReleaseOutcome,
  WithToken,
} from "./core/lease.ts";
export type { LeaseState } from "./core/lease-state.ts";
export type {
  Acquirable,
  AcquireOptions,
  GuardBinding,
  HeldInfo,
  Keepalive,
  LockInfo,
  LockManager,
  ManagerOptions,
  OnceOptions,
  OnceResult,
  PendingInfo,
  QueryResult,
  TryOptions,
} from "./core/lock-manager.ts";
export type { Random } from "./core/random.ts";
export type { SequencerKey } from "./core/sequencer.ts";
