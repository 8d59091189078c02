/**
 * The port between core and a backend: what a driver is asked, and what it may answer.
 *
 * One rule makes row stores and queue stores the same: **`attempt` is idempotent by grant id**. The first try, a poll,
 * the read-back after a lost reply, the proof after a wake-up and the confirmation of a hand-off are all the same call
 * with the same grant id. Policy (when to ask again, how long to wait, when to give up, what to renew) is core's;
 * mechanism (rows, nodes, scripts, watches) is the driver's.
 */
import type { Capabilities, Declaration, Mode } from "./capabilities.ts";
import type { Clock } from "./clock.ts";
import type { Random } from "./random.ts";

declare const capabilities: unique symbol;

/** An adapter to one backend. The phantom property carries the literal capabilities. */
export interface Driver<C extends Capabilities = Capabilities> extends Declaration<C> {
  readonly [capabilities]?: C;
  /** The kind of backend, part of every scope: `"memory"`, `"sqlite"`, … */
  readonly name: string;
  /** Connects. Called at the first use, and again after it rejected. */
  open(context: DriverContext): Promise<Backend>;
  /**
   * What this deployment keeps, and under which faults it does not: the driver's row of the guarantee table, narrowed by
   * what `probe` found. For people, who decide by it; core does not read it.
   */
  guarantees?(findings: readonly Finding[]): GuaranteeRow;
}

/** One row of the guarantee table, for one deployment. */
export interface GuaranteeRow {
  /** The deployment in a few words: "one Redis, append-only file, fsync everysec". */
  readonly deployment: string;
  readonly cells: readonly GuaranteeCell[];
}

/** What one fault does to a deployment. */
export interface GuaranteeCell {
  readonly fault: string;
  /** Whether a holder's deadline still precedes the next grant. `cannot` where the fault cannot happen. */
  readonly exclusion: "holds" | "breaks" | "cannot";
  /** Whether tokens still rise; `none` where there are none. */
  readonly tokens: "rise" | "may fall" | "none";
  /** Under which condition, or what to do. */
  readonly note?: string;
}

/** What core lends to a driver, so that the simulator can lend something else. */
export interface DriverContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly host: Host;
  readonly namespace: string;
  /** Facts that nobody asked for: a wake-up, a lost link, an ended session. Never throws. */
  readonly notify: (notice: Notice) => void;
}

/** Where this process runs. */
export interface Host {
  /** Unique to this process and its start: names its queue entries, channels and doorbells. */
  readonly id: string;
  readonly name: string;
  readonly pid: number;
  /** Changes with every boot; `null` where the system does not tell. */
  readonly bootId: string | null;
  /** Which monotonic clock this process reads (a time namespace on Linux); `null` where the system does not tell. */
  readonly timeNamespace: string | null;
}

/** A fact that nobody asked for. */
export type Notice =
  /** This entry's turn may have come: ask again. Wrong or repeated wakes are harmless. */
  | { readonly kind: "wake"; readonly grantId: string }
  /** The link is down: jeopardy for these, at once. `"all"`: everything on this backend. */
  | { readonly kind: "suspect"; readonly grantIds: readonly string[] | "all" }
  /** Surely gone: lost, at once. */
  | {
      readonly kind: "gone";
      readonly grantIds: readonly string[] | "all";
      readonly reason: GoneReason;
    };

/** Why a record is not there any more, as far as the backend knows. */
export type GoneReason = "expired" | "taken" | "revoked" | "session-ended";

/** Bounds one call: core aborts `signal` after `timeoutMs` and then reads the outcome as unknown. */
export interface Io {
  readonly timeoutMs: number;
  /** Made on first read: a driver that cannot be cancelled costs nothing. */
  readonly signal: AbortSignal;
}

/** One acquisition. Everything but `join`, `seen`, `tokens` and `above` stays the same when it is asked again. */
export interface Ask {
  readonly name: string;
  readonly mode: Mode;
  /** The stored count for `permits`; 1 otherwise. */
  readonly permits: number;
  readonly grantId: string;
  /** Who asks: opaque text of at most 5 KiB. */
  readonly holder: string;
  readonly ttlMs: number;
  readonly lockDelayMs: number;
  /** Tokens wanted, for hand-off inside the process. Always 1 where `mints` is "at-enqueue". */
  readonly tokens: number;
  /**
   * `"no"`: leave nothing behind when busy, and do not overtake live waiters. `"yes"`: queue where the backend can.
   * `"kept"`: we queue already; an entry that is gone must not be made again (`vanished`).
   */
  readonly join: "no" | "yes" | "kept";
  /** Observer-clock stores: the version seen unchanged, and for how long from receipt to now. */
  readonly seen?: { readonly version: string; readonly forMs: number };
  /** Token repair: the grant's token must exceed this. */
  readonly above?: bigint;
}

/** What a backend says to an `Ask`. */
export type Answer =
  | Granted
  | Busy
  /** The entry that queued is gone, or this grant id was released before (a late packet): ask under a new grant id. */
  | { readonly kind: "vanished" }
  /** The name is a semaphore with another count. */
  | { readonly kind: "mismatch"; readonly permits: number };

/**
 * The grant stands, and its ttl runs from no earlier than the moment this ask was sent: a repeated ask renews. It never
 * ends the grant sooner, since it may be a late packet, and the holder have renewed for longer since.
 */
export interface Granted {
  readonly kind: "granted";
  /**
   * First token and how many; `null` on a driver without fencing and for permits. The block's last is below every
   * later grant. A repeated ask returns the tokens that the grant has.
   */
  readonly tokens: { readonly first: bigint; readonly count: number } | null;
  /** The previous exclusive holder of the name never released. */
  readonly takenOver: boolean;
  /** The previous grant's last token, where the store still knows it. */
  readonly previousToken: bigint | null;
  /** What the backend keeps: never below the asked ttl unless the store has a maximum (then core uses this). */
  readonly ttlMs: number;
}

/** Somebody else holds the name, or stands before us. */
export interface Busy {
  readonly kind: "busy";
  /** In the backend's queue under our grant id, or not. */
  readonly queued: boolean;
  /** Why: for messages, and for the poll. */
  readonly blockedBy: "lease" | "queue" | "lock-delay";
  readonly holder: string | null;
  /**
   * When it is useful to ask again if no wake comes. While an offer runs: soon after it, wherever we stand in line, since
   * an ask is what passes on an offer that nobody took.
   */
  readonly askAgainMs: number;
  /** The entry counts as a dead waiter when nothing was heard for so long: core asks three times in it. Infinity: never. */
  readonly keepEntryMs: number;
  /** Observer-clock stores: what to watch, and for how long it must stay. */
  readonly observe?: { readonly version: string; readonly leaseMs: number };
}

/** A lease, or an entry that still queues: both are kept alive and given back by the same calls. */
export interface GrantRef {
  readonly name: string;
  readonly mode: Mode;
  readonly grantId: string;
  readonly ttlMs: number;
  readonly lockDelayMs: number;
  /**
   * On release: an ask of this grant id may still be on its way (its outcome was unknown), so refuse it for this long.
   * Without it a late packet makes a grant that nobody holds for a whole ttl.
   */
  readonly refuseLateMs?: number;
  /** On release, for token repair: raise the counter to at least this, in the same step. */
  readonly raiseTo?: bigint;
}

/** What became of one renewal. `renewed`: the ttl runs again, from no earlier than the send. */
export type Renewal =
  | { readonly kind: "renewed"; readonly ttlMs: number }
  | { readonly kind: "gone"; readonly reason: GoneReason }
  | { readonly kind: "failed"; readonly error: unknown };

/** What became of one release. */
export type Release =
  | { readonly kind: "released" }
  | { readonly kind: "gone"; readonly reason: GoneReason }
  | { readonly kind: "failed"; readonly error: unknown };

/** One record, for people. Advisory: true when it was read. */
export interface LockRecord {
  readonly name: string;
  readonly mode: Mode | null;
  readonly permits: number;
  readonly holders: readonly {
    readonly grantId: string;
    readonly holder: string;
    /** First token of the grant's block, and its last: more than one where a process hands the lock on inside itself. */
    readonly token: bigint | null;
    readonly lastToken: bigint | null;
    readonly remainingMs: number | null;
    /** Unix milliseconds of the grant, by the clock of whoever granted it; `null` where the store does not keep it. */
    readonly sinceMs: number | null;
  }[];
  /** In queue order, live ones only. */
  readonly waiters: readonly { readonly grantId: string; readonly holder: string }[];
  /** Quiet time that still runs, 0 when none does. */
  readonly lockDelayMs: number;
}

/** A fact about the deployment that a driver found out, for `require` and for people. */
export interface Finding {
  readonly name: string;
  readonly value: string;
  /** `refuse`: the driver cannot keep what it declares. */
  readonly verdict: "ok" | "warn" | "refuse";
  /** What to do about it. */
  readonly advice?: string;
}

/** A live connection to one backend. One attempt a call: no retry, no sleep, no renewal, no clock of its own. */
export interface Backend {
  attempt(ask: Ask, io: Io): Promise<Answer>;
  /**
   * One batch: as few round trips as the store allows. Answers in the order asked; rejects only as a whole. Neither a
   * renewal nor a repeated ask ends a lease earlier than it would have ended: a late packet with a shorter ttl may follow
   * one with a longer ttl, on whose answer the holder counts.
   */
  renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]>;
  /** Leases and queued entries. Idempotent. A release wakes, or hands over to, the head of the queue. */
  release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]>;
  /**
   * Frees this grant only, after its lock-delay unless `now`: an operator never hits the next holder by accident.
   * The holder's next renewal answers `gone` with `revoked`.
   */
  revoke(
    order: { readonly name: string; readonly grantId: string; readonly now: boolean },
    io: Io,
  ): Promise<Release>;
  /**
   * Gives a lease another grant id, once: the record of `from` becomes the ask's, with a larger token and a fresh ttl.
   * A repeated exchange to the same grant id is the same grant. Only where `transfer` is not "no".
   */
  exchange?(
    from: string,
    ask: Ask,
    io: Io,
  ): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }>;
  inspect(name: string, io: Io): Promise<LockRecord>;
  /** Names that are held or waited for, sorted by their encoded bytes. */
  list(
    page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
    io: Io,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }>;
  probe(io: Io): Promise<readonly Finding[]>;
  close(): Promise<void>;
}

/** Thrown by a driver, made from a native error by code or class, never by its text. Core decides whether to ask again. */
export class DriverError extends Error {
  override readonly name: string = "DriverError";
  /** `not-applied`: surely nothing changed at the backend. */
  readonly outcome: "not-applied" | "unknown";
  readonly kind: "unavailable" | "timeout" | "busy" | "config" | "quorum";
  /** Per-node results, for `quorum`. */
  readonly votes:
    | { readonly got: number; readonly needed: number; readonly causes: readonly unknown[] }
    | undefined;
  constructor(
    kind: DriverError["kind"],
    outcome: DriverError["outcome"],
    message: string,
    options: { readonly cause?: unknown; readonly votes?: NonNullable<DriverError["votes"]> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.outcome = outcome;
    this.votes = options.votes;
  }
}
