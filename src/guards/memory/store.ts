import { InvalidArgumentError } from "../../core/errors.ts";
import type { Claim } from "../../core/guard.ts";
import { checkSyncBody, checkSyncResult } from "../../core/sync-body.ts";

/** A guard entry of this store: the pair, its scope, and when it was last used (Unix milliseconds). */
export interface MemoryEntry extends Claim {
  readonly usedAtMs: number;
}

/** One transaction of a memory store: sees its own changes, and the store sees them when it ends well. */
export interface MemoryTransaction<V = unknown> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
  delete(key: string): void;
}

/**
 * A map of values in this process that a memory guard can protect, together with the guard's entries. Values are kept
 * as they are given, never copied: changing an object in place changes it for everybody, with or without a commit.
 */
export interface MemoryStore<V = unknown> {
  /** The committed value. Asks no guard: for readers that hold nothing. */
  get(key: string): V | undefined;
  /**
   * Runs `fn` and then applies what it changed; nothing when it throws. For writes that a long job makes after its
   * claim: verify in it first. Synchronous: a body that returns a promise is refused.
   * @throws InvalidArgumentError for such a body, or inside another transaction of this store
   */
  transaction<T>(fn: (tx: MemoryTransaction<V>) => T): T;
}

/** Makes an empty store. */
export function memoryStore<V = unknown>(): MemoryStore<V> {
  return new Store<V>();
}

const REMOVED = Symbol("removed");

/** The store as the guard sees it. Exclusion needs no lock: one thread, and a transaction never waits. */
export class Store<V> implements MemoryStore<V> {
  readonly #values = new Map<string, V>();
  #open: Transaction<V> | null = null;
  readonly entries: Overlay<MemoryEntry>;
  /** Per scope, the token that missing entries inherit. */
  readonly floors: Overlay<bigint>;

  constructor() {
    this.entries = new Overlay();
    this.floors = new Overlay();
  }

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  transaction<T>(fn: (tx: MemoryTransaction<V>) => T): T {
    if (this.#open !== null)
      throw new InvalidArgumentError(
        "Expected no open transaction: this store is in one already; verify in that one instead.",
      );
    checkSyncBody(fn);
    const tx = new Transaction<V>(this);
    this.#open = tx;
    let result: T;
    try {
      result = fn(tx);
      checkSyncResult(result);
    } catch (error) {
      this.entries.rollback();
      this.floors.rollback();
      throw error;
    } finally {
      tx.ended = true;
      this.#open = null;
    }
    this.entries.commit();
    this.floors.commit();
    for (const [key, value] of tx.changes) {
      if (value === REMOVED) this.#values.delete(key);
      else this.#values.set(key, value);
    }
    return result;
  }
}

/** Changes of one transaction over the committed values. */
class Transaction<V> implements MemoryTransaction<V> {
  readonly store: Store<V>;
  readonly changes = new Map<string, V | typeof REMOVED>();
  ended = false;

  constructor(store: Store<V>) {
    this.store = store;
  }

  get(key: string): V | undefined {
    this.#check();
    if (!this.changes.has(key)) return this.store.get(key);
    const changed = this.changes.get(key);
    return changed === REMOVED ? undefined : changed;
  }

  set(key: string, value: V): void {
    this.#check();
    this.changes.set(key, value);
  }

  delete(key: string): void {
    this.#check();
    this.changes.set(key, REMOVED);
  }

  #check(): void {
    if (this.ended)
      throw new InvalidArgumentError("Expected an open transaction: this one has ended.");
  }
}

/** A map whose changes wait for a commit. */
class Overlay<T> {
  readonly #committed = new Map<string, T>();
  readonly #changes = new Map<string, T | typeof REMOVED>();

  get(key: string): T | null {
    const changed = this.#changes.get(key);
    if (changed === REMOVED) return null;
    return changed ?? this.#committed.get(key) ?? null;
  }

  /** What is committed. */
  list(): [string, T][] {
    return [...this.#committed];
  }

  set(key: string, value: T): void {
    this.#changes.set(key, value);
  }

  delete(key: string): void {
    this.#changes.set(key, REMOVED);
  }

  commit(): void {
    for (const [key, value] of this.#changes) {
      if (value === REMOVED) this.#committed.delete(key);
      else this.#committed.set(key, value);
    }
    this.#changes.clear();
  }

  rollback(): void {
    this.#changes.clear();
  }
}

/** The store behind what a user passes. @throws InvalidArgumentError for anything that `memoryStore` did not make */
export function storeOf<V>(db: MemoryStore<V>): Store<V> {
  if (db instanceof Store) return db as Store<V>;
  throw new InvalidArgumentError("Expected a store made by memoryStore().");
}

/** The store of an open transaction. @throws InvalidArgumentError once it has ended */
export function storeOfTransaction<V>(tx: MemoryTransaction<V>): Store<V> {
  if (tx instanceof Transaction && !tx.ended) return tx.store as Store<V>;
  throw new InvalidArgumentError("Expected an open transaction of a memory store.");
}
