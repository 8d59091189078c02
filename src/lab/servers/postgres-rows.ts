/** What a PostgreSQL keeps of the driver's tables: versions of rows, what a transaction has written, and what it is in the way of. */

/** Moments are whole microseconds since 1970, as the server counts; `-Infinity` is its `'-infinity'`. */
export interface LockRow {
  readonly key: string;
  readonly state: number;
  readonly permits: number;
  readonly grant_id: string | null;
  readonly holder: string | null;
  readonly ttl_ms: number;
  readonly delay_ms: number;
  readonly expires: number;
  readonly since: number;
  readonly first: bigint;
  readonly count: number;
  readonly raised: bigint;
  readonly previous: bigint | null;
  readonly abandoned: boolean;
  readonly arrivals: number;
}

export interface ShareRow {
  readonly key: string;
  readonly grant_id: string;
  readonly mode: string;
  readonly holder: string;
  readonly ttl_ms: number;
  readonly delay_ms: number;
  readonly expires: number;
  readonly since: number;
  readonly first: bigint | null;
  readonly previous: bigint | null;
  readonly abandoned: boolean;
}

export interface WaiterRow {
  readonly key: string;
  readonly seq: number;
  readonly grant_id: string;
  readonly channel: string;
  readonly mode: string;
  readonly permits: number;
  readonly holder: string;
  readonly ttl_ms: number;
  readonly keep_ms: number;
  readonly until: number;
  readonly offered: number | null;
  readonly missed: boolean;
}

interface TombRow {
  readonly key: string;
  readonly grant_id: string;
  readonly kind: string;
  readonly until: number;
}

/** A lease as people keep one in a table of their own. */
interface PlainLease {
  readonly key: string;
  readonly owner: string;
  readonly token: bigint;
  readonly expires: number;
}

/** The pair that last used something that a lock protects. */
export interface GuardRow {
  readonly key: string;
  readonly token: bigint;
  readonly grant_id: string;
  readonly scope: string;
}

/** What a lock protects: each write adds a version. */
interface VersionRow {
  readonly key: string;
  readonly ver: number;
  /** Who wrote it, and what it is based on. */
  readonly writer: string;
}

export interface Rows {
  readonly locks: LockRow;
  readonly shares: ShareRow;
  readonly waiters: WaiterRow;
  readonly tombs: TombRow;
  readonly leases: PlainLease;
  readonly guards: GuardRow;
  readonly versions: VersionRow;
}

export type TableName = keyof Rows;

/** One row that was written, or removed where `row` is `undefined`. */
export interface Change<N extends TableName = TableName> {
  readonly table: N;
  readonly id: string;
  readonly row: Rows[N] | undefined;
}

interface Version {
  readonly row: Rows[TableName] | undefined;
  /** The commit that made it. */
  readonly commit: number;
  readonly older: Version | undefined;
}

/** The id of a row with two keys. */
export function idOf(key: string, second: string | number): string {
  return `${key} ${second}`;
}

/** Committed versions of rows, by the number of the commit: who looked before it goes on seeing what was there. */
export class Versions {
  readonly #tables: Readonly<Record<TableName, Map<string, Version>>> = {
    locks: new Map(),
    shares: new Map(),
    waiters: new Map(),
    tombs: new Map(),
    leases: new Map(),
    guards: new Map(),
    versions: new Map(),
  };
  /** The number of the last commit. */
  commit = 0;

  /** As of `snapshot`; the newest without it. */
  get<N extends TableName>(table: N, id: string, snapshot?: number): Rows[N] | undefined {
    return seen(this.#tables[table].get(id), snapshot ?? Infinity)?.row as Rows[N] | undefined;
  }

  /** The commit that made the newest version. */
  commitOf(table: TableName, id: string): number {
    return this.#tables[table].get(id)?.commit ?? 0;
  }

  *all<N extends TableName>(
    table: N,
    snapshot?: number,
  ): Generator<readonly [string, Rows[N]], void> {
    for (const [id, version] of this.#tables[table]) {
      const row = seen(version, snapshot ?? Infinity)?.row;
      if (row !== undefined) yield [id, row as Rows[N]];
    }
  }

  /** Makes changes permanent. `keep`: somebody may still look at what was there before. */
  add(changes: Iterable<Change>, keep: boolean): void {
    this.commit += 1;
    for (const { table, id, row } of changes) {
      const versions = this.#tables[table];
      const older = keep ? versions.get(id) : undefined;
      if (row === undefined && older === undefined) versions.delete(id);
      else versions.set(id, { row, commit: this.commit, older });
    }
  }
}

function seen(version: Version | undefined, snapshot: number): Version | undefined {
  let found = version;
  while (found !== undefined && found.commit > snapshot) found = found.older;
  return found;
}
