/** What an event is about. What each operation carries is written beside it. */
export type EvOp =
  /** invoke {lock, mode, ttl}; ok {lock, grant, token, ttl, deadline, lt}: from here on the client believes; fail; info. */
  | "acquire"
  /** invoke {lock, grant, token}; ok {…, deadline, lt}; fail: the server said that it is not ours; info. */
  | "renew"
  /** invoke {lock, grant, token}: the belief ends here; ok: it was ours and is free now; fail: it was not ours; info. */
  | "release"
  /** {res, lock, grant, token, accepted}: `grant` is the lease acted under, `token` what the resource was shown. */
  | "claim"
  /** {res, grant, token, ver}: the version that was seen */
  | "read"
  /** {res, grant, token, from, ver, accepted, path}: `ver` is written, unique per resource, and based on `from`. */
  | "write"
  /** {idem, body, ver, accepted, err, res}: performed (`accepted`), or answered from memory; `ver` is the response. */
  | "effect"
  /** event {lock, grant, token}: the client is told that its lease is over. */
  | "lost"
  /** event {lock, grant, token, accepted}: the client asked its lease, and this was the answer. */
  | "held?"
  /** event {lock, grant}: the server put this grant id at the end of its queue. */
  | "enqueue"
  /** event {lock, grant}: the server told this waiter to look. */
  | "wakeup"
  /** event {lock, grant}: a waiter gave up, its process died, or its offer lapsed. */
  | "leave"
  /** event {lock, grant}: an operator freed this grant; nobody promised its holder anything after that. */
  | "revoke"
  /**
   * event {lock, grant, token, ttl, lockDelay, op}: the server's own step (simulator; proxy or monitor on real servers).
   * `grant` is the one that it happened to, `op` the call that caused it.
   */
  | "srv.grant"
  | "srv.expire"
  | "srv.renew"
  | "srv.release"
  /** event {p}: the process stands still, goes on, dies, starts (with a new `inc`). */
  | "fault.pause"
  | "fault.resume"
  | "fault.kill"
  | "fault.start"
  /** event {p, rate, lt}: from here on this client's monotonic clock reads `lt` and runs at `rate`. */
  | "fault.clock"
  /** event {err}: what happened to the network or a server, in words. */
  | "fault.net"
  /** event: all faults are over; progress is demanded from here on. */
  | "heal";

/** `info`: the outcome is unknown (a timeout, a lost reply). `event`: not a call, or where a call took effect. */
export type EvKind = "invoke" | "ok" | "fail" | "info" | "event";

export type EvMode = "exclusive" | "shared" | "permits";

/** What a recorder says of an event. Times are nanoseconds; `t` is on one clock for the whole history. */
export interface NewEv {
  /** Virtual time in the simulator, the host's monotonic clock on real servers. */
  readonly t: number;
  /** The client; for a step of the server the client that it concerns. */
  readonly p: string;
  /** Its incarnation: a restart makes a new one. Default 0. */
  readonly inc?: number | undefined;
  readonly k: EvKind;
  readonly f: EvOp;
  /**
   * Number of the call, unique in the run, at least 1: joins `invoke` with its completion. A claim, read, write or effect
   * takes place at its `event`, which the resource records, or, where the resource records nothing, at its `ok`.
   */
  readonly op?: number | undefined;
  /** The client's own monotonic clock at `t`. Absent: `t` itself. */
  readonly lt?: number | undefined;
  readonly lock?: string | undefined;
  readonly grant?: string | undefined;
  readonly token?: bigint | undefined;
  /** Absent: exclusive. */
  readonly mode?: EvMode | undefined;
  /** How many permits the lock has. */
  readonly permits?: number | undefined;
  readonly ttl?: number | undefined;
  readonly lockDelay?: number | undefined;
  /** On the client's own monotonic clock. */
  readonly deadline?: number | undefined;
  readonly res?: string | undefined;
  readonly ver?: number | undefined;
  readonly from?: number | undefined;
  readonly idem?: string | undefined;
  readonly body?: string | undefined;
  readonly accepted?: boolean | undefined;
  /** Which clock `t` comes from, where there are several that agree only roughly (hosts, boots). */
  readonly clock?: string | undefined;
  /** Which code made the write: names the one that forgot its token. */
  readonly path?: string | undefined;
  readonly err?: string | undefined;
  /** Local nanoseconds per nanosecond. */
  readonly rate?: number | undefined;
}

/** One event of a history. `i` is the order of recording, and for events at one time the order in which they took place. */
export interface Ev extends NewEv {
  readonly i: number;
  readonly inc: number;
}

/** What a run was: enough to repeat it. */
export interface HistoryHeader {
  readonly scenario: string;
  readonly seed: string;
  readonly backend: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly guarantees: Readonly<Record<string, unknown>>;
}

export const OPS: readonly EvOp[] = [
  "acquire",
  "renew",
  "release",
  "claim",
  "read",
  "write",
  "effect",
  "lost",
  "held?",
  "enqueue",
  "wakeup",
  "leave",
  "revoke",
  "srv.grant",
  "srv.expire",
  "srv.renew",
  "srv.release",
  "fault.pause",
  "fault.resume",
  "fault.kill",
  "fault.start",
  "fault.clock",
  "fault.net",
  "heal",
];
export const KINDS: readonly EvKind[] = ["invoke", "ok", "fail", "info", "event"];

export const NO_HEADER: HistoryHeader = {
  scenario: "",
  seed: "",
  backend: "",
  config: {},
  versions: {},
  guarantees: {},
};

/**
 * Records a run in memory. Events are appended in the order in which they took place, times never decreasing. What is
 * swept in bulk is put into columns by `columnsOf`.
 */
export class History implements Iterable<Ev> {
  readonly header: HistoryHeader;
  readonly #events: Ev[] = [];

  constructor(header: Partial<HistoryHeader> = {}) {
    this.header = { ...NO_HEADER, ...header };
  }

  get length(): number {
    return this.#events.length;
  }

  /** Records an event and keeps the object itself: a copy of each would cost more than everything else here. */
  append(event: NewEv): Ev {
    // An object that was recorded before keeps its place there.
    const kept: Writable<NewEv> & { i?: number } = "i" in event ? { ...event } : event;
    kept.i = this.#events.length;
    kept.inc ??= 0;
    this.#events.push(kept as Ev);
    return kept as Ev;
  }

  /** @throws RangeError when there is no such event */
  at(i: number): Ev {
    const event = this.#events[i];
    if (event === undefined) throw new RangeError(`No event ${i}: there are ${this.length}.`);
    return event;
  }

  [Symbol.iterator](): Iterator<Ev> {
    return this.#events[Symbol.iterator]();
  }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };
