import type { SqliteValue } from "../../drivers/sqlite/client.ts";

/** What a statement is given. */
export type Args = Readonly<Record<string, SqliteValue>>;

interface MetaEntry {
  readonly format: number;
  readonly boot: string | null;
  readonly clock: string | null;
  readonly floor: bigint;
}

export interface LockEntry {
  readonly key: string;
  readonly state: number;
  readonly permits: number;
  readonly grant_id: string | null;
  readonly holder: string | null;
  readonly ttl_ms: number;
  readonly delay_ms: number;
  readonly expires: number;
  readonly wall_end: number;
  readonly since: number;
  readonly first: bigint;
  readonly last: bigint;
  readonly counter: bigint;
  readonly previous: bigint | null;
  readonly abandoned: number;
  readonly freed: number;
}

export interface ShareEntry {
  readonly key: string;
  readonly grant_id: string;
  readonly mode: string;
  readonly holder: string;
  readonly ttl_ms: number;
  readonly delay_ms: number;
  readonly expires: number;
  readonly wall_end: number;
  readonly since: number;
  readonly first: bigint | null;
  readonly previous: bigint | null;
  readonly abandoned: number;
}

export interface WaiterEntry {
  readonly key: string;
  readonly seq: number;
  readonly grant_id: string;
  readonly host: string;
  readonly mode: string;
  readonly permits: number;
  readonly holder: string;
  readonly ttl_ms: number;
  readonly keep_ms: number;
  readonly until: number;
  readonly offered: number | null;
  readonly missed: number;
}

interface TombEntry {
  readonly grant_id: string;
  readonly kind: string;
  readonly until: number;
}

interface Rows {
  readonly meta: MetaEntry;
  readonly locks: LockEntry;
  readonly shares: ShareEntry;
  readonly waiters: WaiterEntry;
  readonly tombs: TombEntry;
}

type TableName = keyof Rows;

/** One row that was written, or removed where `row` is `undefined`. */
export interface Change<N extends TableName = TableName> {
  readonly table: N;
  readonly id: string;
  readonly row: Rows[N] | undefined;
}

/** The driver's tables. Rows are never changed, only replaced, so that each change can be undone and done again. */
export class Tables {
  readonly #rows: { readonly [N in TableName]: Map<string, Rows[N]> } = {
    meta: new Map(),
    locks: new Map(),
    shares: new Map(),
    waiters: new Map(),
    tombs: new Map(),
  };
  /** What the open transaction wrote, and what was there before. */
  #done: Change[] = [];
  #before: Change[] = [];

  get<N extends TableName>(table: N, id: string): Rows[N] | undefined {
    return this.#rows[table].get(id);
  }

  all<N extends TableName>(table: N): IterableIterator<Rows[N]> {
    return this.#rows[table].values();
  }

  put<N extends TableName>(table: N, id: string, row: Rows[N] | undefined): void {
    this.#before.push({ table, id, row: this.#rows[table].get(id) });
    this.#done.push({ table, id, row });
    this.#set({ table, id, row });
  }

  /** The rows that satisfy `where`, in the order of their keys. */
  where<N extends TableName>(table: N, where: (row: Rows[N]) => boolean): Rows[N][] {
    const found: Rows[N][] = [];
    for (const row of this.#rows[table].values()) if (where(row)) found.push(row);
    return found;
  }

  /** Whether anything was written since the last commit. */
  get dirty(): boolean {
    return this.#done.length > 0;
  }

  /** Makes what was written since the last commit permanent, and returns it. */
  commit(): readonly Change[] {
    const done = this.#done;
    this.#done = [];
    this.#before = [];
    return done;
  }

  rollback(): void {
    for (const change of this.#before.reverse()) this.#set(change);
    this.#done = [];
    this.#before = [];
  }

  /** Does again what was committed. */
  redo(changes: readonly Change[]): void {
    for (const change of changes) this.#set(change);
  }

  clear(): void {
    for (const rows of Object.values(this.#rows)) rows.clear();
    this.#done = [];
    this.#before = [];
  }

  #set({ table, id, row }: Change): void {
    const rows = this.#rows[table] as Map<string, Rows[TableName]>;
    if (row === undefined) rows.delete(id);
    else rows.set(id, row);
  }
}

/** The rows that a statement returns, or how many it changed. */
export type Outcome = readonly object[] | number;

/** What one statement does to the tables. */
export type Model = (tables: Tables, args: Args) => Outcome;

/** The id of a row with two keys. */
export function idOf(key: string, second: string | number): string {
  return `${key} ${second}`;
}

/** A number that was bound. @throws RangeError when it was not, as SQLite's clients do */
export function num(args: Args, name: string): number {
  return Number(bound(args, name));
}

export function text(args: Args, name: string): string {
  return String(bound(args, name));
}

export function big(args: Args, name: string): bigint {
  return BigInt(bound(args, name) ?? 0);
}

/** Text or NULL. */
export function textOrNull(args: Args, name: string): string | null {
  const value = bound(args, name);
  return value === null ? null : String(value);
}

export function bigOrNull(args: Args, name: string): bigint | null {
  const value = bound(args, name);
  return value === null ? null : BigInt(value);
}

function bound(args: Args, name: string): SqliteValue {
  const value = args[name];
  if (value === undefined) throw new RangeError(`Missing named parameter "${name}"`);
  return value;
}
