import type { Mode } from "../../core/capabilities.ts";

/** One name as a transaction sees it that has its row. Times are milliseconds from the server's now; the past is negative. */
export interface Sight {
  readonly lock: {
    readonly state: number;
    readonly permits: number;
    readonly grant: string | null;
    readonly holder: string | null;
    readonly ttl: number;
    readonly delay: number;
    readonly rest: number;
    readonly first: string;
    readonly count: number;
    readonly raised: string;
    readonly previous: string | null;
    readonly abandoned: boolean;
  } | null;
  /** What refuses the grant id that this is about. */
  readonly tomb: string | null;
  /** Whether any grant id of the name is refused. */
  readonly tombs: boolean;
  /** The shared lease or permit of the grant id; it may be in its lock-delay. */
  readonly share: {
    readonly mode: Mode;
    readonly rest: number;
    readonly ttl: number;
    readonly delay: number;
    readonly first: string | null;
    readonly previous: string | null;
    readonly abandoned: boolean;
  } | null;
  /** All that take room, lock-delays included. */
  readonly shares: {
    readonly shared: number;
    readonly permits: number;
    readonly soonest: number | null;
    readonly latest: number | null;
    readonly living: number | null;
    readonly spent: number;
    readonly holder: string | null;
  };
  /** The entry of the grant id. */
  readonly waiter: { readonly seq: number; readonly offered: boolean } | null;
  /** Live ones before the entry, or all; and those of them that are not shared. */
  readonly ahead: readonly [all: number, barring: number];
  /** The count that a live waiter for a permit relies on. */
  readonly semaphore: number | null;
  /** Entries, dead ones included. */
  readonly entries: number;
  readonly offersEnd: number | null;
  /** Places whose offer was not taken. */
  readonly late: readonly number[];
  /** The holder text of the first live waiter. */
  readonly head: string | null;
  /** The first live ones, in order. */
  readonly waiters: readonly SeenWaiter[];
}

export interface SeenWaiter {
  readonly seq: number;
  readonly grant: string;
  readonly mode: Mode;
  readonly ttl: number;
  readonly channel: string;
  readonly offered: boolean;
}
