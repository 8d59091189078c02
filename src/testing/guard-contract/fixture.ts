import type { Adoption, Credential, GuardOptions, Resources } from "../../core/guard.ts";
import type { World } from "./world.ts";

/** A guard as the contract calls it: a `Guard` or a `SyncGuard`. */
export interface GuardUnderTest<Db = unknown, Tx = unknown> {
  run(
    db: Db,
    resources: Resources,
    credential: Credential,
    fn: (tx: Tx) => unknown,
  ): Promise<unknown>;
  claim(db: Db, resources: Resources, credential: Credential): Promise<void>;
  verify(tx: Tx, resources: Resources, credential: Credential): void | Promise<void>;
  adopt(db: Db, resource: string, adoption: Adoption): Promise<void>;
  purge(db: Db, before: Date): Promise<number>;
}

/** A transaction that stays open while others act. */
export interface OpenTransaction<Tx = unknown> {
  readonly tx: Tx;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** Rows that carry their own fence columns; a fresh row has none set. */
export interface FencedRows {
  insert(key: string, value: string): Promise<void>;
  read(key: string): Promise<string>;
  /** One UPDATE with the condition (and, for a claim, its assignments): whether it changed the row. */
  update(
    key: string,
    value: string,
    credential: Credential,
    condition: "predicate" | "claimPredicate",
  ): Promise<boolean>;
}

/** A resource under test: empty, used by one test, and closed after it. */
export interface OpenedResource<Db = unknown, Tx = unknown> {
  /** The connection of one holder. */
  readonly db: Db;
  /** The connection of another one to the same data; the same object where a store has no connections. */
  readonly other: Db;
  /** Makes the guard; entries are shared by all guards of one resource. */
  guard(options?: GuardOptions): GuardUnderTest<Db, Tx>;
  /** One transaction that the guard knows nothing of: rejects, and changes nothing, when `body` fails. */
  transaction(db: Db, body: (tx: Tx) => unknown): Promise<unknown>;
  /** The value of a key; `null` for none. */
  read(tx: Tx, key: string): string | null | Promise<string | null>;
  write(tx: Tx, key: string, value: string): void | Promise<void>;
  /** Where a transaction can stay open while other connections act. */
  begin?(db: Db): Promise<OpenTransaction<Tx>>;
  /** Where the guard has `predicate` and `claimPredicate`. */
  readonly rows?: FencedRows;
  close(): Promise<void>;
}

/** What the contract is told about a guard. */
export interface GuardFixture<Db = unknown, Tx = unknown> {
  readonly name: string;
  /** Whether bodies of `run` and of transactions may wait. */
  readonly bodies: "sync" | "async";
  /** What the resource has beyond the least: promises about the rest are excused. */
  readonly has: { readonly openTransactions: boolean; readonly fencedRows: boolean };
  open(): Promise<OpenedResource<Db, Tx>>;
}

/** One promise and its test. */
export interface GuardPromise {
  /** A whole sentence that is false when the test fails. */
  readonly promise: string;
  /** The reason why it does not apply to such a guard, or `null`. */
  readonly excuse?: (fixture: GuardFixture) => string | null;
  run(world: World): Promise<void>;
}

/** Promises that belong together. */
export interface GuardContractModule {
  readonly name: string;
  readonly promises: readonly GuardPromise[];
}
