import { type Engine, ServerComplaint, type Transaction, type Wait } from "./postgres-engine.ts";
import type { Rows, TableName } from "./postgres-rows.ts";

/** A generator that waits, then returns. */
export type Waiting<T> = Generator<Wait, T>;

/**
 * The tables as one statement has them: it sees what was committed when it started, and what its own transaction wrote;
 * what it changes it locks first, and then looks at the newest version of that row.
 */
export class Access {
  readonly engine: Engine;
  readonly tx: Transaction;
  readonly #snapshot: number;

  constructor(engine: Engine, tx: Transaction) {
    this.engine = engine;
    this.tx = tx;
    if (tx.repeatable) tx.snapshot ??= engine.versions.commit;
    this.#snapshot = tx.snapshot ?? engine.versions.commit;
  }

  /** The same transaction's next statement. */
  again(): Access {
    return new Access(this.engine, this.tx);
  }

  /** What `clock_timestamp()` reads now. */
  clock(): number {
    return this.engine.host.micros();
  }

  get<N extends TableName>(table: N, id: string): Rows[N] | undefined {
    const written = this.tx.writes.get(`${table} ${id}`);
    if (written !== undefined) return written.row as Rows[N] | undefined;
    return this.engine.versions.get(table, id, this.#snapshot);
  }

  /** What it sees of a table. */
  where<N extends TableName>(
    table: N,
    is: (row: Rows[N]) => boolean,
  ): (readonly [string, Rows[N]])[] {
    const { writes } = this.tx;
    const all = this.engine.versions.all(table, this.#snapshot);
    if (writes.size === 0) return [...all].filter(([, row]) => is(row));
    const found = new Map<string, Rows[N]>(all);
    for (const { table: of, id, row } of writes.values()) {
      if (of !== table) continue;
      if (row === undefined) found.delete(id);
      else found.set(id, row as Rows[N]);
    }
    return [...found].filter(([, row]) => is(row));
  }

  rows<N extends TableName>(table: N, is: (row: Rows[N]) => boolean): Rows[N][] {
    return this.where(table, is).map(([, row]) => row);
  }

  /** Locks a row, however long that takes, and returns it as it is then. */
  *lock<N extends TableName>(table: N, id: string): Waiting<Rows[N] | undefined> {
    const { engine, tx } = this;
    const row = `${table} ${id}`;
    if (engine.heldByOther(tx, row)) yield waitFor(tx, row, true);
    // After a wait it is its own already.
    engine.take(tx, row);
    if (tx.repeatable && engine.versions.commitOf(table, id) > this.#snapshot)
      throw new ServerComplaint("40001", "could not serialize access due to concurrent update");
    return this.newest(table, id);
  }

  /** The row as its own transaction wrote it, else as it was last committed. */
  newest<N extends TableName>(table: N, id: string): Rows[N] | undefined {
    const written = this.tx.writes.get(`${table} ${id}`);
    if (written !== undefined) return written.row as Rows[N] | undefined;
    return this.engine.versions.get(table, id);
  }

  put<N extends TableName>(table: N, id: string, row: Rows[N] | undefined): void {
    this.tx.writes.set(`${table} ${id}`, { table, id, row });
  }

  /**
   * UPDATE, or DELETE where `set` returns nothing: the rows that it sees and that satisfy `is`, each locked; one that was
   * changed meanwhile is looked at again, one that is gone is left out. Returns the new rows, or the old ones of a DELETE.
   */
  *change<N extends TableName>(
    table: N,
    is: (row: Rows[N]) => boolean,
    set: (row: Rows[N]) => Rows[N] | undefined,
  ): Waiting<Rows[N][]> {
    if (table === "locks") yield* this.writesLocks();
    const done: Rows[N][] = [];
    for (const [id, seen] of this.where(table, is)) {
      // What is written is computed before the row is locked, and anew only where it was changed.
      let next = set(seen);
      const now = yield* this.lock(table, id);
      if (now === undefined) continue;
      if (now !== seen) {
        if (!is(now)) continue;
        next = set(now);
      }
      this.put(table, id, next);
      done.push(next ?? now);
    }
    return done;
  }

  /**
   * INSERT: whether it went in. One that another transaction writes right now is waited for; the newest one counts,
   * whether this statement sees it or not.
   */
  *insert<N extends TableName>(table: N, id: string, row: Rows[N]): Waiting<boolean> {
    if (table === "locks") yield* this.writesLocks();
    const { engine, tx } = this;
    const name = `${table} ${id}`;
    while (engine.writtenByOther(tx, name)) yield waitFor(tx, name, false);
    if (this.newest(table, id) !== undefined) return false;
    engine.take(tx, name);
    this.put(table, id, row);
    return true;
  }

  /** Nobody may have the table of locks for himself now. */
  *writesLocks(): Waiting<void> {
    const { engine, tx } = this;
    if (tx.wroteLocks || tx.hasTable) return;
    while (engine.tableTaken(tx, false)) yield waitFor(tx, "", false);
    tx.wroteLocks = true;
  }

  /** Has the table of locks for itself, against all who write. */
  *lockTable(): Waiting<void> {
    const { engine, tx } = this;
    while (engine.tableTaken(tx, true)) yield waitFor(tx, "", true);
    tx.hasTable = true;
  }

  /** A row that no other transaction has, by FOR UPDATE SKIP LOCKED; `undefined` where another has it. */
  tryLock<N extends TableName>(table: N, id: string): Rows[N] | undefined {
    const name = `${table} ${id}`;
    if (this.engine.heldByOther(this.tx, name)) return undefined;
    this.engine.take(this.tx, name);
    return this.newest(table, id);
  }

  nextval(): bigint {
    return this.engine.nextval(this.tx);
  }

  notify(channel: string, payload: string): void {
    this.tx.notices.set(`${channel} ${payload}`, { channel, payload });
  }

  /** `synchronous_commit` as the driver raises it, until the end of the transaction. */
  raiseSync(): string {
    if (this.tx.sync === "off" || this.tx.sync === "local") this.tx.sync = "on";
    return this.tx.sync;
  }
}

function waitFor(tx: Transaction, row: string, take: boolean): Wait {
  return { tx, row, take, wake: () => undefined };
}

/** The one in a unique index that is there already. */
export function duplicate(): ServerComplaint {
  return new ServerComplaint("23505", "duplicate key value violates unique constraint");
}
