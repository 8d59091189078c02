import { describeHolder, type Holder } from "./holder.ts";

/** Every code that a Ringfence error can carry: stable, one per class. */
export type ErrorCode =
  | "ERR_INVALID_ARGUMENT"
  | "ERR_ACQUIRE_TIMEOUT"
  | "ERR_MANAGER_CLOSED"
  | "ERR_UNSUPPORTED"
  | "ERR_STALE_TOKEN"
  | "ERR_GUARD_SCOPE"
  | "ERR_IDEMPOTENCY_CONFLICT"
  | "ERR_IDEMPOTENCY_IN_PROGRESS"
  | "ERR_LEASE_LOST"
  | "ERR_LEASE_RELEASED"
  | "ERR_DEADLOCK"
  | "ERR_PERMIT_MISMATCH"
  | "ERR_BACKEND"
  | "ERR_BACKEND_UNAVAILABLE"
  | "ERR_BACKEND_TIMEOUT"
  | "ERR_BACKEND_CONFIG"
  | "ERR_QUORUM";

const brand = (name: string): symbol => Symbol.for(`ringfence.${name}`);

/** Whether `value` carries the brand of `type`: true also for an instance made by another copy of this package. */
function hasBrand(type: { readonly brandName: string }, value: unknown): boolean {
  return typeof value === "object" && value !== null && brand(type.brandName) in value;
}

/** Base of every error that Ringfence raises itself: a stable `code`, a `cause` where there is one, and `toJSON`. */
export class RingfenceError extends Error {
  /** The class's brand: `instanceof` compares it, so that it holds across two installed copies. */
  static readonly brandName: string = "RingfenceError";
  override readonly name: string = "RingfenceError";
  readonly code: ErrorCode;
  /** A second failure that the first one hides, such as a release that failed while the body's error was on its way. */
  suppressed: unknown;

  constructor(code: ErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    for (
      let type: unknown = new.target;
      typeof type === "function";
      type = Object.getPrototypeOf(type)
    ) {
      const { brandName } = type as { brandName?: string };
      if (brandName === undefined) break;
      Object.defineProperty(this, brand(brandName), { value: true });
    }
    Object.defineProperty(this, "suppressed", {
      enumerable: false,
      writable: true,
      value: undefined,
    });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(this, value);
  }

  /** Name, code, message and the class's own fields; tokens as decimal strings, causes by name and message. */
  toJSON(): Record<string, unknown> {
    const json: Record<string, unknown> = {
      name: this.name,
      code: this.code,
      message: this.message,
    };
    for (const [key, value] of Object.entries(this)) if (!(key in json)) json[key] = plain(value);
    if (this.cause !== undefined) json["cause"] = plain(this.cause);
    return json;
  }
}

function plain(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof RingfenceError) return value.toJSON();
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (Array.isArray(value)) return value.map(plain);
  return value;
}

/** An option, name or value that can never be right. */
export class InvalidArgumentError extends RingfenceError {
  static override readonly brandName: string = "InvalidArgumentError";
  override readonly name: string = "InvalidArgumentError";
  constructor(message: string, cause?: unknown) {
    super("ERR_INVALID_ARGUMENT", message, cause);
  }
}

/** The wait ran out while somebody else held the name. */
export class AcquireTimeoutError extends RingfenceError {
  static override readonly brandName: string = "AcquireTimeoutError";
  override readonly name: string = "AcquireTimeoutError";
  readonly waitedMs: number;
  readonly attempts: number;
  /** Who held it when it was last seen; for people. */
  readonly holder: Holder | null;
  constructor(lock: string, facts: { waitedMs: number; attempts: number; holder: Holder | null }) {
    const by = facts.holder === null ? "" : `; held by ${describeHolder(facts.holder)}`;
    super(
      "ERR_ACQUIRE_TIMEOUT",
      `Lock "${lock}" not acquired within ${Math.round(facts.waitedMs)} ms${by}`,
    );
    this.waitedMs = facts.waitedMs;
    this.attempts = facts.attempts;
    this.holder = facts.holder;
  }
}

/** The manager was closed before or during the call. */
export class ManagerClosedError extends RingfenceError {
  static override readonly brandName: string = "ManagerClosedError";
  override readonly name: string = "ManagerClosedError";
  constructor(message = "The lock manager is closed") {
    super("ERR_MANAGER_CLOSED", message);
  }
}

/** The driver cannot do this at all. */
export class UnsupportedError extends RingfenceError {
  static override readonly brandName: string = "UnsupportedError";
  override readonly name: string = "UnsupportedError";
  constructor(message: string) {
    super("ERR_UNSUPPORTED", message);
  }
}

/** Why a lease was lost. */
export type LostReason =
  | "expired"
  | "unreachable"
  | "taken"
  | "revoked"
  | "session-ended"
  | "max-hold";

/** What the body of `request` had come to when its lease turned out to be lost. */
export type Outcome = { readonly value: unknown } | { readonly error: unknown };

const LOST: Record<LostReason, string> = {
  expired: "its time ran out before it was renewed",
  unreachable: "the backend could not be reached until its deadline",
  taken: "another holder has it, or its record is gone",
  revoked: "an operator revoked it",
  "session-ended": "the backend session ended",
  "max-hold": "it was held as long as `maxHold` allows",
};

/** A lease can no longer be proven held. Writes that a guard checks are refused from the successor's claim on. */
export class LeaseLostError extends RingfenceError {
  static override readonly brandName: string = "LeaseLostError";
  override readonly name: string = "LeaseLostError";
  readonly reason: LostReason;
  readonly lock: string;
  readonly token: bigint | null;
  /** Set on the error that `request` rejects with: what the body returned or threw. */
  outcome: Outcome | undefined;
  constructor(lock: string, reason: LostReason, token: bigint | null, cause?: unknown) {
    super("ERR_LEASE_LOST", `Lease on "${lock}" lost: ${LOST[reason]}`, cause);
    this.reason = reason;
    this.lock = lock;
    this.token = token;
    Object.defineProperty(this, "outcome", { enumerable: false, writable: true, value: undefined });
  }
}

/** The lease was given back or handed over by its own process. */
export class LeaseReleasedError extends RingfenceError {
  static override readonly brandName: string = "LeaseReleasedError";
  override readonly name: string = "LeaseReleasedError";
  constructor(lock: string, how: "released" | "exported" = "released") {
    super("ERR_LEASE_RELEASED", `Lease on "${lock}" was ${how} before`);
  }
}

/** Waiting could never end: re-entry, an upgrade, or a cycle of waiters. */
export class DeadlockError extends RingfenceError {
  static override readonly brandName: string = "DeadlockError";
  override readonly name: string = "DeadlockError";
  constructor(message: string) {
    super("ERR_DEADLOCK", message);
  }
}

/** The semaphore was made with another number of permits. */
export class PermitMismatchError extends RingfenceError {
  static override readonly brandName: string = "PermitMismatchError";
  override readonly name: string = "PermitMismatchError";
  readonly asked: number;
  readonly stored: number;
  constructor(lock: string, asked: number, stored: number) {
    super(
      "ERR_PERMIT_MISMATCH",
      `"${lock}" has ${stored} permits, ${asked} were asked for; all users must agree`,
    );
    this.asked = asked;
    this.stored = stored;
  }
}

/** The resource knows a newer holder: this one must stop. */
export class StaleTokenError extends RingfenceError {
  static override readonly brandName: string = "StaleTokenError";
  override readonly name: string = "StaleTokenError";
  readonly resource: string;
  readonly presented: bigint;
  /** What the resource has stored; `null` where a verify found no claim at all. */
  readonly highest: bigint | null;
  readonly step: "claim" | "verify";
  constructor(facts: {
    resource: string;
    presented: bigint;
    highest: bigint | null;
    step: "claim" | "verify";
  }) {
    const stored =
      facts.highest === null ? "no claim of this grant" : `token ${facts.highest.toString()}`;
    super(
      "ERR_STALE_TOKEN",
      `${facts.step} refused at "${facts.resource}": presented token ${facts.presented.toString()}, the resource has ${stored}`,
    );
    this.resource = facts.resource;
    this.presented = facts.presented;
    this.highest = facts.highest;
    this.step = facts.step;
  }
}

/** The resource was claimed under another lock, namespace or backend: their tokens do not compare. */
export class GuardScopeError extends RingfenceError {
  static override readonly brandName: string = "GuardScopeError";
  override readonly name: string = "GuardScopeError";
  readonly resource: string;
  constructor(resource: string, stored: string, presented: string) {
    super(
      "ERR_GUARD_SCOPE",
      `"${resource}" belongs to scope ${stored}, not ${presented}: another lock, namespace or backend guards it. Move it deliberately with guard.adopt`,
    );
    this.resource = resource;
  }
}

/** The same idempotency key came with another request. */
export class IdempotencyConflictError extends RingfenceError {
  static override readonly brandName: string = "IdempotencyConflictError";
  override readonly name: string = "IdempotencyConflictError";
  constructor(key: string) {
    super("ERR_IDEMPOTENCY_CONFLICT", `Idempotency key "${key}" was used for another request`);
  }
}

/** The first call with this idempotency key has not ended yet. */
export class IdempotencyInProgressError extends RingfenceError {
  static override readonly brandName: string = "IdempotencyInProgressError";
  override readonly name: string = "IdempotencyInProgressError";
  constructor(key: string) {
    super(
      "ERR_IDEMPOTENCY_IN_PROGRESS",
      `The first call with idempotency key "${key}" is still running`,
    );
  }
}

/** What a backend step was about, and whether it may have been applied. */
export interface BackendFacts {
  /** `"acquire"`, `"renew"`, `"release"`, `"inspect"`, `"open"`, … */
  readonly operation: string;
  /** `unknown`: it may or may not have happened at the backend. */
  readonly outcome: "not-applied" | "unknown";
  readonly cause?: unknown;
}

/** The backend failed. */
export class BackendError extends RingfenceError {
  static override readonly brandName: string = "BackendError";
  override readonly name: string = "BackendError";
  readonly operation: string;
  readonly outcome: "not-applied" | "unknown";
  constructor(message: string, facts: BackendFacts, code: ErrorCode = "ERR_BACKEND") {
    super(code, message, facts.cause);
    this.operation = facts.operation;
    this.outcome = facts.outcome;
  }
}

/** The backend could not be reached, or refused to work. */
export class BackendUnavailableError extends BackendError {
  static override readonly brandName: string = "BackendUnavailableError";
  override readonly name: string = "BackendUnavailableError";
  constructor(message: string, facts: BackendFacts) {
    super(message, facts, "ERR_BACKEND_UNAVAILABLE");
  }
}

/** No answer came in time: what was asked may have happened. */
export class BackendTimeoutError extends BackendError {
  static override readonly brandName: string = "BackendTimeoutError";
  override readonly name: string = "BackendTimeoutError";
  constructor(message: string, facts: BackendFacts) {
    super(message, facts, "ERR_BACKEND_TIMEOUT");
  }
}

/** Too few nodes agreed. */
export class QuorumError extends BackendError {
  static override readonly brandName: string = "QuorumError";
  override readonly name: string = "QuorumError";
  readonly votes: number;
  readonly needed: number;
  /** One per node that failed. */
  readonly causes: readonly unknown[];
  constructor(
    message: string,
    facts: BackendFacts,
    quorum: { readonly got: number; readonly needed: number; readonly causes: readonly unknown[] },
  ) {
    super(message, facts, "ERR_QUORUM");
    this.votes = quorum.got;
    this.needed = quorum.needed;
    this.causes = quorum.causes;
  }
}

/** The backend works but is set up so that asking again cannot help: access, schema, format, a missing guarantee. */
export class BackendConfigError extends BackendError {
  static override readonly brandName: string = "BackendConfigError";
  override readonly name: string = "BackendConfigError";
  constructor(message: string, facts: BackendFacts) {
    super(message, facts, "ERR_BACKEND_CONFIG");
  }
}
