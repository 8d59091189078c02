/**
 * What one Redis has of the production driver's names: the four keys of a name (`src/drivers/redis/lua.ts`) as typed
 * values, each with the moment at which its key ends. Times are Unix milliseconds of the server's clock.
 */

/** Modes as the scripts spell them. */
export type Letter = "e" | "s" | "p";

/** The exclusive lease of a name. */
export interface Lease {
  readonly id: string;
  readonly endsAt: number;
  readonly delayMs: number;
  readonly ttlMs: number;
  readonly first: bigint;
  readonly count: number;
  readonly over: number;
  /** The token before, or nothing. */
  readonly before: string;
  readonly sinceMs: number;
  readonly holder: string;
}

/** The key `l`. */
export interface Lock {
  lease: Lease | null;
  last: bigint | null;
  /** A week before the key ends, as it was said last. */
  keptUntil: number | null;
  raised: bigint | null;
  abandoned: boolean;
  /** There is more to look at than this key. */
  aside: boolean;
  mode: Letter | null;
  permits: number | null;
  arrivals: number | null;
  sweepAt: number | null;
  endsAt: number | null;
}

/** Waits, or died waiting. */
export interface Waiter {
  readonly kind: "waiter";
  readonly id: string;
  readonly aliveUntil: number;
  readonly arrival: number;
  readonly mode: Letter;
  readonly ttlMs: number;
  /** 0: none. */
  readonly offerUntil: number;
  readonly channel: string;
  readonly holder: string;
}

/** A shared lease or a permit. */
export interface Share {
  readonly kind: "share";
  readonly id: string;
  readonly endsAt: number;
  readonly delayMs: number;
  readonly ttlMs: number;
  readonly mode: Letter;
  readonly first: bigint | null;
  readonly over: number;
  readonly before: string;
  readonly sinceMs: number;
  readonly holder: string;
}

/** Must not be granted any more. */
interface Tomb {
  readonly kind: "tomb";
  readonly until: number;
  readonly revoked: boolean;
}

/** One record of the key `r`. */
export type Entry = Waiter | Share | Tomb;

/** A key with members. It ends with its last one, and with it the moment at which it was to end. */
class Members<V> extends Map<string, V> {
  endsAt: number | null = null;

  override delete(member: string): boolean {
    const was = super.delete(member);
    if (this.size === 0) this.endsAt = null;
    return was;
  }

  copy(): Members<V> {
    const copy = new Members<V>(this);
    copy.endsAt = this.endsAt;
    return copy;
  }
}

/** One name: its keys `l`, `q`, `c` and `r`. */
export interface NameState {
  lock: Lock | null;
  /** Arrivals of those who are in the line. */
  queue: Members<number>;
  /** Ends of what takes room: shares with their lock-delay, and offers. */
  occupants: Members<number>;
  records: Members<Entry>;
}

/** Names by their keys' common beginning. */
export type RedisLocks = Map<string, NameState>;

export function emptyName(): NameState {
  return {
    lock: null,
    queue: new Members(),
    occupants: new Members(),
    records: new Members(),
  };
}

export function emptyLock(): Lock {
  return {
    lease: null,
    last: null,
    keptUntil: null,
    raised: null,
    abandoned: false,
    aside: false,
    mode: null,
    permits: null,
    arrivals: null,
    sweepAt: null,
    endsAt: null,
  };
}

/** What a replica or a disk keeps of a name. */
export function copyOf({ lock, queue, occupants, records }: NameState): NameState {
  return {
    lock: lock === null ? null : { ...lock },
    queue: queue.copy(),
    occupants: occupants.copy(),
    records: records.copy(),
  };
}

/** Whether both have the same. */
export function sameNames(a: RedisLocks, b: RedisLocks): boolean {
  const empty = emptyName();
  return [...b].every(([base, name]) => textOf(name) === textOf(a.get(base) ?? empty));
}

function textOf({ lock, queue, occupants, records }: NameState): string {
  return JSON.stringify([lock, [...queue], [...occupants], [...records]], (_key, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}

/** Drops the keys whose end is past: in its last millisecond a key is still there. */
export function expire(name: NameState, now: number): void {
  const over = ({ endsAt }: { readonly endsAt: number | null }): boolean =>
    endsAt !== null && endsAt < now;
  if (name.lock !== null && over(name.lock)) name.lock = null;
  if (over(name.queue)) name.queue = new Members();
  if (over(name.occupants)) name.occupants = new Members();
  if (over(name.records)) name.records = new Members();
}

/** Members in the order of their scores; equal ones by their names. */
export function ranked(members: ReadonlyMap<string, number>): [member: string, score: number][] {
  return [...members].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1));
}
