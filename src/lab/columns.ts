/** Histories in columns, for sweeps over tens of millions of events. */
import { type Ev, type EvKind, type EvOp, KINDS, type NewEv, OPS } from "./history.ts";

/** Row n is the n-th event. Locks, grants and resources are numbered apart; 0 is "none". Rows beyond `length` mean nothing. */
export interface Columns {
  readonly length: number;
  readonly code: Uint8Array;
  readonly t: Float64Array;
  /** The deadline as a time of `t`, for a client clock that runs evenly; Infinity where there is none. */
  readonly until: Float64Array;
  readonly lock: Uint32Array;
  readonly grant: Uint32Array;
  readonly res: Uint32Array;
  /** The token's upper and lower 32 bits; both 0 without one. */
  readonly high: Uint32Array;
  readonly low: Uint32Array;
  /** See `FLAG`. */
  readonly flags: Uint8Array;
  /** Numbers of locks and of resources are below these. */
  readonly locks: number;
  readonly resources: number;
}

/** What `Columns.flags` says. */
export const FLAG: { readonly accepted: 1; readonly notExclusive: 2; readonly ownClock: 4 } = {
  accepted: 1,
  notExclusive: 2,
  /** The client's clock does not run evenly with `t`: only the event itself says when its deadline is. */
  ownClock: 4,
};

/** The number of an operation and kind in `Columns.code`. */
export function codeOf(f: EvOp, k: EvKind): number {
  return OPS.indexOf(f) * 8 + KINDS.indexOf(k);
}

const CODES: ReadonlyMap<string, number> = new Map(
  OPS.flatMap((f) => KINDS.map((k) => [`${k} ${f}`, codeOf(f, k)] as const)),
);
const LOW = 0xffff_ffffn;

/** Collects events in columns; far smaller than the events themselves (46 bytes each). */
export class ColumnsBuilder {
  #columns: Columns;
  #size: number;
  readonly #locks = new Map<string, number>();
  readonly #grants = new Map<string, number>();
  readonly #resources = new Map<string, number>();
  #length = 0;

  constructor(size = 1024) {
    this.#size = size;
    this.#columns = empty(size);
  }

  /** The columns so far; they stay valid until the next `append`. */
  get columns(): Columns {
    return {
      ...this.#columns,
      length: this.#length,
      locks: this.#locks.size + 1,
      resources: this.#resources.size + 1,
    };
  }

  append(event: Ev | NewEv): void {
    if (this.#length === this.#size) this.#grow();
    const n = this.#length;
    const { code, t, until, lock, grant, res, high, low, flags } = this.#columns;
    const { token, deadline, lt } = event;
    code[n] = CODES.get(`${event.k} ${event.f}`) ?? 255;
    t[n] = event.t;
    until[n] = deadline === undefined ? Infinity : event.t + (deadline - (lt ?? event.t));
    lock[n] = numberOf(this.#locks, event.lock);
    grant[n] = numberOf(this.#grants, event.grant);
    res[n] = numberOf(this.#resources, event.res);
    if (token !== undefined) {
      high[n] = Number(token >> 32n);
      low[n] = Number(token & LOW);
    }
    flags[n] =
      (event.accepted === true ? FLAG.accepted : 0) |
      (event.mode === undefined || event.mode === "exclusive" ? 0 : FLAG.notExclusive) |
      (event.rate === undefined ? 0 : FLAG.ownClock);
    this.#length = n + 1;
  }

  #grow(): void {
    this.#size *= 2;
    const grown = empty(this.#size);
    for (const key of KEYS) grown[key].set(this.#columns[key]);
    this.#columns = grown;
  }
}

/** A whole history in columns. */
export function columnsOf(history: Iterable<Ev | NewEv>): Columns {
  const builder = new ColumnsBuilder();
  for (const event of history) builder.append(event);
  return builder.columns;
}

const KEYS = ["code", "t", "until", "lock", "grant", "res", "high", "low", "flags"] as const;

function numberOf(numbers: Map<string, number>, text: string | undefined): number {
  if (text === undefined) return 0;
  let number = numbers.get(text);
  if (number === undefined) {
    number = numbers.size + 1;
    numbers.set(text, number);
  }
  return number;
}

function empty(size: number): Columns {
  return {
    length: 0,
    code: new Uint8Array(size),
    t: new Float64Array(size),
    until: new Float64Array(size),
    lock: new Uint32Array(size),
    grant: new Uint32Array(size),
    res: new Uint32Array(size),
    high: new Uint32Array(size),
    low: new Uint32Array(size),
    flags: new Uint8Array(size),
    locks: 1,
    resources: 1,
  };
}
