import type { AsyncContext } from "./async-context.ts";
import type { Capabilities, Mode, Requirements } from "./capabilities.ts";
import type { Clock } from "./clock.ts";
import type { Host } from "./driver.ts";
import type { Duration } from "./duration.ts";
import type { EventSink, LockEventName, LockEvents } from "./events.ts";
import type { Guard, SyncGuard } from "./guard.ts";
import type { Holder } from "./holder.ts";
import type { Lease, LeaseSet } from "./lease.ts";
import type { Mac } from "./mac.ts";
import type { Random } from "./random.ts";
import type { SequencerKey } from "./sequencer.ts";

/** How a lease is kept alive: by itself, only while the job reports progress, or not at all. */
export type Keepalive = "auto" | "progress" | "off";

/** Options of one acquisition. */
export interface AcquireOptions<M extends Mode = Mode> {
  /** `"exclusive"` unless said otherwise; `"permits"` is asked for through `semaphore`, never here. */
  readonly mode?: M & ("exclusive" | "shared");
  /** How long the backend keeps the lease without a renewal; 50 ms (the driver may want more) to 365 days. */
  readonly ttl?: Duration;
  /** How long to wait for others; `"forever"` by default, 0 for one attempt. */
  readonly wait?: Duration;
  /** Cancels the wait; the call rejects with its reason. After the grant it does nothing. */
  readonly signal?: AbortSignal;
  readonly keepalive?: Keepalive;
  /** The longest hold: then the lease is lost with reason `max-hold`, and lapses by its ttl. 50 ms to 365 days. */
  readonly maxHold?: Duration;
  /** Quiet time after a holder vanished, never after a release; 0 to 60 s. */
  readonly lockDelay?: Duration;
  /** The token must exceed this: repair of a counter that went back. */
  readonly above?: bigint;
  /** Who holds it, for people: at most 256 bytes. */
  readonly label?: string;
  /** For people: at most 4 KiB as JSON. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Options of one attempt: there is nothing to wait for. */
export type TryOptions<M extends Mode = Mode> = Omit<AcquireOptions<M>, "wait">;

/** What only `request` takes. */
export interface RequestExtras {
  /** Nested in a `request` on the same name: the same lease again, instead of a `DeadlockError`. */
  readonly reentrant?: boolean;
}

/** A guard with the resource that `request` claims before its body and verifies after it. */
export interface GuardBinding<Db, Tx> {
  readonly guard: Pick<Guard<Db, Tx>, "claim" | "run"> | Pick<SyncGuard<Db, Tx>, "claim" | "run">;
  readonly db: Db;
  /** One resource, or the whole set that every holder of the lock claims; the lock name by default. */
  readonly resource?: string | readonly string[];
}

type Work<L, T> = (lease: L) => T | PromiseLike<T>;

/** A name that can be asked for without options that belong to the name itself. */
export interface Acquirable<F extends Capabilities["fencing"], M extends Mode> {
  request<T>(fn: Work<Lease<F, M>, T>): Promise<T>;
  request<T>(
    options: TryOptions<never> & { readonly ifAvailable: true },
    fn: Work<Lease<F, M> | null, T>,
  ): Promise<T>;
  request<T>(options: AcquireOptions<never>, fn: Work<Lease<F, M>, T>): Promise<T>;
  acquire(options?: AcquireOptions<never>): Promise<Lease<F, M>>;
  tryAcquire(options?: TryOptions<never>): Promise<Lease<F, M> | null>;
}

/** Options of `once`. */
export interface OnceOptions {
  /** How long the record of a run stays, from its start: nobody runs it again in that time. */
  readonly keep: Duration;
  /** The scheduled time of this run: runs of one scheduled time are one run, however much each clock jitters. */
  readonly at?: Date | string;
  /** Lets the next one in when the body throws, or a ttl after its process died. By default both count as run. */
  readonly retryOnError?: boolean;
  /** The ttl while the body runs. */
  readonly ttl?: Duration;
  readonly label?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** What `once` came to: this call ran it, or somebody did before. */
export type OnceResult<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly holder: Holder };

/** One lease as the backend shows it. Advisory: true when it was read. */
export interface HeldInfo {
  readonly name: string;
  readonly mode: Mode;
  readonly holder: Holder;
  readonly grantId: string;
  readonly token: bigint | null;
  /** Unix milliseconds of the grant; `null` where the store does not keep it. */
  readonly sinceMs: number | null;
  readonly remainingMs: number | null;
}

/** One waiter as the backend shows it. */
export interface PendingInfo {
  readonly name: string;
  readonly holder: Holder;
  readonly grantId: string;
}

/** One lock as the backend shows it. Advisory: true when it was read. */
export interface LockInfo {
  readonly name: string;
  /** `null` for a name that nobody holds or waits for. */
  readonly mode: Mode | null;
  readonly permits: number;
  readonly held: readonly HeldInfo[];
  /** In queue order; the first 1,000. */
  readonly pending: readonly PendingInfo[];
  /** Quiet time after a vanished holder that still runs, 0 when none does. */
  readonly lockDelayMs: number;
  /** More wait than `pending` shows. */
  readonly truncated: boolean;
  /** The first of `held`, for the usual case of one holder; `null` when the lock is free. */
  readonly holder: Holder | null;
  readonly token: bigint | null;
  readonly sinceMs: number | null;
  readonly remainingMs: number | null;
}

/** What `query` found, sorted by name. */
export interface QueryResult {
  readonly held: readonly HeldInfo[];
  readonly pending: readonly PendingInfo[];
  /** There are more names than `limit`. */
  readonly truncated: boolean;
}

/** How many permits, or the sentence that the compiler prints where a driver has none. */
interface PermitsByMode {
  readonly exclusive: "this driver has no semaphores";
  readonly shared: "this driver has no semaphores";
  readonly permits: number;
}

/** Locks over one backend, in one namespace. Make one per process and store, and close it at the end. */
export interface LockManager<C extends Capabilities = Capabilities> extends AsyncDisposable {
  /**
   * Runs `fn` while the lock is held, releases, and resolves to its result. `fn`'s result or error wins over a release
   * problem; a lease that was lost meanwhile rejects with `LeaseLostError`, which carries what `fn` came to.
   */
  request<T>(name: string, fn: Work<Lease<C["fencing"], "exclusive">, T>): Promise<T>;
  /** Claims the guard's resource first, runs `fn` in one guarded transaction, and repairs a counter that went back once. */
  request<T, Db, Tx>(
    name: string,
    options: AcquireOptions<"exclusive"> &
      RequestExtras & { readonly guard: GuardBinding<Db, Tx>; readonly ifAvailable?: false },
    fn: (lease: Lease<C["fencing"], "exclusive">, tx: Tx) => T | PromiseLike<T>,
  ): Promise<T>;
  request<T, M extends "exclusive" | C["modes"] = "exclusive">(
    name: string,
    options: AcquireOptions<M> & RequestExtras & { readonly ifAvailable?: false },
    fn: Work<Lease<C["fencing"], M>, T>,
  ): Promise<T>;
  /** With `ifAvailable`, `fn` gets `null` when the lock is busy. */
  request<T, M extends "exclusive" | C["modes"] = "exclusive">(
    name: string,
    options: TryOptions<M> & RequestExtras & { readonly ifAvailable: boolean },
    fn: Work<Lease<C["fencing"], M> | null, T>,
  ): Promise<T>;

  /** Waits for the lock. @throws AcquireTimeoutError, BackendError, or the signal's reason */
  acquire<M extends "exclusive" | C["modes"] = "exclusive">(
    name: string,
    options?: AcquireOptions<M>,
  ): Promise<Lease<C["fencing"], M>>;
  /** One attempt; `null` when somebody holds it or waits for it. */
  tryAcquire<M extends "exclusive" | C["modes"] = "exclusive">(
    name: string,
    options?: TryOptions<M>,
  ): Promise<Lease<C["fencing"], M> | null>;
  /** All names or none, taken in one order in every process, within one wait. */
  acquireAll<M extends "exclusive" | C["modes"] = "exclusive">(
    names: readonly string[],
    options?: AcquireOptions<M>,
  ): Promise<LeaseSet<C["fencing"], M>>;

  /** `permits` leases at a time. All users of the name must say the same number. */
  semaphore(
    name: string,
    options: { readonly permits: PermitsByMode[C["modes"]] },
  ): Acquirable<C["fencing"], "permits">;

  /** Runs `fn` unless somebody did within `keep`: the nightly job on six replicas. Never waits. */
  once<T>(
    name: string,
    options: OnceOptions,
    fn: Work<Lease<C["fencing"], "exclusive">, T>,
  ): Promise<OnceResult<T>>;

  /** Locks that are held or waited for; at most `limit` (default 100, up to 10,000). */
  query(options?: { readonly prefix?: string; readonly limit?: number }): Promise<QueryResult>;
  inspect(name: string): Promise<LockInfo>;
  /**
   * Frees one grant: `grantId`'s, or without it whoever holds the name now (shared leases and permits need one). The
   * revoked holder learns of it at its next renewal, at most a third of its ttl later; a guard refuses it from the
   * next holder's claim on, not before.
   */
  revoke(
    name: string,
    options: { readonly reason: string; readonly grantId?: string; readonly now?: boolean },
  ): Promise<{ readonly revoked: Holder | null }>;
  /** Whether the grant of a sequencer still stands at the backend. `same-tenure`: handed on inside its process since. */
  check(sequencer: string): Promise<"current" | "superseded" | "same-tenure">;
  /** Takes over a lease that another process exported; works once. @throws LeaseLostError when it is not there any more */
  resume(exported: string): Promise<Lease<C["fencing"], "exclusive">>;

  /** Adds a listener; the returned function removes it. */
  on<N extends LockEventName>(event: N, listener: (event: LockEvents[N]) => void): () => void;
  /**
   * Refuses new work, ends waiters with `ManagerClosedError`, lets running requests end (up to `drain`), releases what
   * is held, and closes what the driver opened. Safe to call twice.
   */
  close(): Promise<void>;
}

/** Options of a manager. */
export interface ManagerOptions<R extends Requirements = Requirements> {
  /** Keeps locks of one store apart; `"default"` by default. Same rules as a lock name. */
  readonly namespace?: string;
  /** Names the server where one namespace lives on several; part of every scope. */
  readonly backendId?: string;
  /** Default ttl, `"30s"`. */
  readonly ttl?: Duration;
  /** Default wait, `"forever"`. */
  readonly wait?: Duration;
  readonly keepalive?: Keepalive;
  readonly lockDelay?: Duration;
  readonly maxHold?: Duration;
  /** Assumed difference of clock rates, 0.01 to 0.2; 0.01 by default. */
  readonly marginRatio?: number;
  /** `"local"`: a process hands a lock on inside itself, in bounded turns; `"off"`: strict FIFO across processes. */
  readonly handOff?: "local" | "off";
  /** The longest wait for one answer; a third of the ttl, at most 5 s, by default. */
  readonly requestTimeout?: Duration;
  /** How long `close` lets running requests go on; 10 s by default. */
  readonly drain?: Duration;
  readonly holder?: {
    readonly label?: string;
    readonly metadata?: Readonly<Record<string, string>>;
  };
  /** The first signs sequencers, all verify. Without keys they are unsigned. */
  readonly sequencerKeys?: readonly SequencerKey[];
  /** `false` switches the detection of nested requests off, and with it the cost of following async calls. */
  readonly detectReentry?: boolean;
  /** Records every event as a line of JSON in a file. */
  readonly history?: { readonly file: string };
  /** Skips the probe of the backend's settings at the first use. */
  readonly trustSettings?: boolean;
  readonly require?: R;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** What the host lends to a manager beside its clock and chance; wired in `index`. */
export interface Platform {
  readonly clock: Clock;
  readonly random: Random;
  readonly mac: Mac;
  readonly host: Host;
  readonly sinks: readonly EventSink[];
  context<T>(): AsyncContext<T>;
  historySink(file: string): EventSink;
}
