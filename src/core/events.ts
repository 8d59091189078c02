import type { Mode } from "./capabilities.ts";
import { show } from "./duration.ts";
import type { LostReason } from "./errors.ts";
import { InvalidArgumentError } from "./errors.ts";
import type { Holder } from "./holder.ts";
import { oneOf } from "./option-values.ts";

/** What every event says about its grant. `atMs` is Unix time, `monoMs` the host's monotonic clock. */
interface Common {
  readonly name: string;
  readonly atMs: number;
  readonly monoMs: number;
}

interface OfGrant extends Common {
  readonly mode: Mode;
  readonly grantId: string;
  readonly token: bigint | null;
}

/** The events of a manager, by name. */
export interface LockEvents {
  /** An acquire begins. */
  readonly requested: Common & { readonly mode: Mode };
  /**
   * A lease is held. `deadlineMs` is on the monotonic clock of `monoMs`, and the longest hold counts; `handedOff`: inside
   * this process, without the backend. `permits`: how many the name has, in mode "permits".
   */
  readonly acquired: OfGrant & {
    readonly permits: number;
    readonly waitedMs: number;
    readonly takenOver: boolean;
    readonly handedOff: boolean;
    readonly deadlineMs: number;
  };
  /** The holder lets go: it released or exported its lease, whatever the backend will say. */
  readonly releasing: OfGrant;
  /** The backend has confirmed it. */
  readonly released: OfGrant & { readonly heldMs: number };
  readonly renewed: OfGrant & { readonly deadlineMs: number };
  /** `lateMs`: how long after the deadline, or after the answer, this notice comes. */
  readonly lost: OfGrant & { readonly reason: LostReason; readonly lateMs: number };
  readonly jeopardy: OfGrant & { readonly remainingMs: number; readonly cause: unknown };
  /** A renewal succeeded after jeopardy. */
  readonly safe: OfGrant;
  /** After 30 s of waiting, and every 30 s from then on: who holds it. */
  readonly waiting: Common & { readonly waitedMs: number; readonly holder: Holder | null };
  /** This manager freed somebody's grant. */
  readonly revoked: Common & {
    readonly grantId: string;
    readonly holder: Holder;
    readonly reason: string;
  };
  /** An acquire ended without a lease: a timeout, a busy try, an abort, an error. */
  readonly refused: Common & { readonly waitedMs: number; readonly cause: unknown };
}

export type LockEventName = keyof LockEvents;
const NAMES: readonly LockEventName[] = Object.keys({
  requested: 0,
  acquired: 0,
  releasing: 0,
  released: 0,
  renewed: 0,
  lost: 0,
  jeopardy: 0,
  safe: 0,
  waiting: 0,
  revoked: 0,
  refused: 0,
} satisfies Record<LockEventName, 0>) as LockEventName[];

export type LockEvent = {
  [N in LockEventName]: { readonly type: N } & LockEvents[N];
}[LockEventName];

/** Where events go besides the manager's own listeners: channels, a history file. Never throws. */
export interface EventSink {
  /** Whether anybody would see an event of this name: what nobody sees is not made. */
  wants(name: LockEventName): boolean;
  emit(event: LockEvent): void;
  /** A listener threw: the manager goes on, the error is shown. */
  listenerFailed(error: unknown): void;
  close?(): Promise<void>;
}

type Listener = (event: never) => void;

/** The listeners of one manager, and its sinks. */
export class Events {
  readonly #listeners = new Map<LockEventName, Set<Listener>>();
  readonly #sinks: readonly EventSink[];

  constructor(sinks: readonly EventSink[]) {
    this.#sinks = sinks;
  }

  /**
   * Adds a listener; the returned function removes it.
   * @throws InvalidArgumentError for an event that there is not: its listener would never be called
   */
  on<N extends LockEventName>(name: N, listener: (event: LockEvents[N]) => void): () => void {
    oneOf("event", name, NAMES);
    if (typeof listener !== "function")
      throw new InvalidArgumentError(`Expected a listener of "${name}", got ${show(listener)}.`);
    const listeners = this.#listeners.get(name) ?? new Set();
    // The same function may be added twice: each subscription is its own.
    const own: Listener = (event) => {
      listener(event);
    };
    this.#listeners.set(name, listeners.add(own));
    return () => {
      listeners.delete(own);
      if (listeners.size === 0 && this.#listeners.get(name) === listeners)
        this.#listeners.delete(name);
    };
  }

  wants(name: LockEventName): boolean {
    if (this.#listeners.has(name)) return true;
    for (const sink of this.#sinks) if (sink.wants(name)) return true;
    return false;
  }

  emit<N extends LockEventName>(type: N, facts: LockEvents[N]): void {
    for (const listener of this.#listeners.get(type) ?? []) {
      try {
        (listener as (event: LockEvents[N]) => void)(facts);
      } catch (error) {
        for (const sink of this.#sinks) sink.listenerFailed(error);
      }
    }
    for (const sink of this.#sinks)
      if (sink.wants(type)) sink.emit({ type, ...facts } as unknown as LockEvent);
  }

  async close(): Promise<void> {
    await Promise.all(this.#sinks.map(async (sink) => sink.close?.()));
  }
}
