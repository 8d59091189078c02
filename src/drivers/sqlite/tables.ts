/** Rows and statements as types. */
import type { NamedSql } from "./client.ts";

export interface MetaRow {
  readonly format: number;
  /** Whose monotonic clock the times are of: a boot id, or `process:<id>` where none can be read; `null` when new. */
  readonly boot: string | null;
  readonly clock: string | null;
  readonly floor: string;
}

/** One name. `state`: 0 nothing but counters, 1 one exclusive holder and nobody else, 2 anything else. */
export interface LockRow {
  readonly state: number;
  readonly permits: number;
  readonly grant_id: string | null;
  readonly holder: string | null;
  readonly ttl_ms: number;
  readonly delay_ms: number;
  readonly expires: number;
  readonly wall_end: number;
  readonly since: number;
  /** Tokens of the last grant that has some; 0 when there was none. */
  readonly first: string;
  readonly last: string;
  /** No token at or below this is given again. */
  readonly counter: string;
  readonly previous: string | null;
  readonly abandoned: number;
  readonly freed: number;
}

/** A shared lease or a permit. */
export interface ShareRow {
  readonly grant_id: string;
  readonly mode: "shared" | "permits";
  readonly holder: string;
  readonly ttl_ms: number;
  readonly expires: number;
  readonly since: number;
  readonly first: string | null;
  readonly previous: string | null;
  readonly abandoned: number;
}

export interface ShareSums {
  readonly shared: number;
  readonly permits: number;
  /** When the first and the last of them stop keeping others out, and when the last lease ends. */
  readonly soonest: number | null;
  readonly latest: number | null;
  readonly expires: number | null;
}

export interface WaiterRow {
  readonly seq: number;
  readonly grant_id: string;
  readonly mode: "exclusive" | "shared" | "permits";
  readonly holder: string;
}

/** The statements for tables with one prefix. */
export interface Statements {
  readonly prefix: string;
  readonly meta: NamedSql<MetaRow>;
  readonly tables: NamedSql<{ readonly name: string }>;
  readonly setIdentity: NamedSql;
  readonly grantIdle: NamedSql<{ first: string; previous: string | null; abandoned: number }>;
  readonly releaseSole: NamedSql;
  readonly renewSole: NamedSql;
  readonly lock: NamedSql<LockRow>;
  readonly putLock: NamedSql;
  readonly share: NamedSql<ShareRow>;
  readonly shareSums: NamedSql<ShareSums>;
  readonly shares: NamedSql<ShareRow>;
  readonly dropSpentShares: NamedSql;
  readonly putShare: NamedSql;
  readonly renewShare: NamedSql;
  readonly cutShare: NamedSql;
  readonly dropShare: NamedSql;
  readonly waiter: NamedSql<WaiterRow>;
  readonly ahead: NamedSql<{ readonly ahead: number; readonly barring: number }>;
  readonly head: NamedSql<WaiterRow>;
  readonly semaphore: NamedSql<{ readonly permits: number }>;
  readonly waiters: NamedSql<WaiterRow>;
  readonly queueLength: NamedSql<{ readonly n: number }>;
  readonly join: NamedSql;
  readonly heard: NamedSql;
  readonly renewWaiter: NamedSql;
  readonly leave: NamedSql;
  readonly missOffers: NamedSql;
  readonly withdrawOffers: NamedSql;
  readonly offerHead: NamedSql<{ readonly host: string }>;
  readonly offerShared: NamedSql<{ readonly host: string }>;
  readonly offersEnd: NamedSql<{ readonly until: number | null }>;
  readonly offeredTo: NamedSql<{ readonly grant_id: string }>;
  readonly waitsFor: NamedSql<{ readonly n: number }>;
  readonly dropDeadWaiters: NamedSql;
  readonly tomb: NamedSql<{ readonly kind: string; readonly until: number }>;
  readonly bury: NamedSql;
  readonly dropTombs: NamedSql;
  readonly list: NamedSql<{ readonly key: string }>;
  readonly sweepTo: NamedSql<{ readonly key: string }>;
  readonly sweepShares: NamedSql;
  readonly sweepIdle: NamedSql;
  readonly sweepFloor: NamedSql;
  readonly sweepLocks: NamedSql;
  readonly inUse: NamedSql<{ readonly n: number }>;
  readonly voidLocks: NamedSql;
  readonly adoptLocks: NamedSql;
  readonly adoptShares: NamedSql;
  readonly adoptTombs: NamedSql;
  readonly clearShares: NamedSql;
  readonly clearWaiters: NamedSql;
  readonly clearTombs: NamedSql;
}

/** The names of the tables. */
export interface Tables {
  readonly meta: string;
  readonly locks: string;
  readonly shares: string;
  readonly waiters: string;
  readonly tombs: string;
}

/** Some of the statements. */
export type Part<K extends keyof Statements> = Pick<Statements, K>;

/** Of waiters: heard from, and skipped by no offer since. */
export const LIVE = "until > :now AND missed = 0";
