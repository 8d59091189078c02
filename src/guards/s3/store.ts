import { InvalidArgumentError } from "../../core/errors.ts";
import type { EntryBook, UsedClaim } from "../../core/guard-entries.ts";
import { checkName } from "../../core/lock-name.ts";
import { CONFLICT, optimistically } from "../../runtime/optimistic.ts";
import { objectsAt, type S3Place } from "./client.ts";
import { type Generation, Generations } from "./generations.ts";

/** One transaction: a consistent view of one generation, and changes that become the next one whole. */
export interface S3Transaction {
  /** The content of a file; `null` when there is none. */
  read(name: string): Promise<Uint8Array | null>;
  /** The same as UTF-8 text. */
  readText(name: string): Promise<string | null>;
  write(name: string, content: string | Uint8Array): void;
  delete(name: string): void;
}

/**
 * Named contents under one prefix of an object store, with the guard's entries beside them. Everything under it changes
 * as one: put together what is claimed together, and nothing else. Names follow the rules of lock names.
 */
export interface S3Store {
  /** The committed content; `null` when there is none. Asks no guard: for readers that hold nothing. */
  read(name: string): Promise<Uint8Array | null>;
  /** The same as UTF-8 text. */
  readText(name: string): Promise<string | null>;
  /**
   * Runs `fn` and commits what it changed; nothing when it throws. For writes that a long job makes after its claim:
   * verify in it first. `fn` runs again, on the newer state, when another change came first.
   * @throws BackendUnavailableError after 5 s of others coming first, BackendError
   */
  transaction<T>(fn: (tx: S3Transaction) => Promise<T>): Promise<T>;
}

/** Where a store is, and under which prefix. */
export type S3StoreOptions = S3Place & {
  /** Before the keys of all its objects, with its own slash where one is wanted; `""` by default. */
  readonly prefix?: string;
};

/**
 * A store in a bucket of Amazon S3, or of a store that answers conditional writes as it does (If-Match and
 * If-None-Match on PUT: 412, or 409 while another write is under way). The first use probes that. A change costs one
 * GET, one PUT and one PUT per written file: meant for manifests of jobs, not for hot counters.
 * @throws InvalidArgumentError
 */
export function s3Store(options: S3StoreOptions): S3Store {
  const { prefix = "" } = options;
  if (typeof prefix !== "string")
    throw new InvalidArgumentError("Expected `prefix` to be the beginning of the keys.");
  return new Store(new Generations(objectsAt(options), prefix));
}

class Store implements S3Store {
  readonly generations: Generations;

  constructor(generations: Generations) {
    this.generations = generations;
  }

  async read(name: string): Promise<Uint8Array | null> {
    for (;;) {
      const content = await (await begin(this)).readOrOutdated(name);
      if (content !== OUTDATED) return content;
    }
  }

  async readText(name: string): Promise<string | null> {
    return textOf(await this.read(name));
  }

  async transaction<T>(fn: (tx: S3Transaction) => Promise<T>): Promise<T> {
    return change(this, "transaction", Infinity, fn);
  }
}

const OUTDATED: unique symbol = Symbol("outdated");

/** Thrown inside a body whose generation is no longer readable: it starts again. */
class Outdated extends Error {}

/** A transaction as the guard sees it. */
export class Transaction implements S3Transaction, EntryBook {
  readonly #generations: Generations;
  readonly #from: Generation;
  readonly #writes = new Map<string, Uint8Array | null>();
  readonly #entries: Map<string, UsedClaim>;
  readonly #floors: Map<string, bigint>;
  #dirty = false;
  #ended = false;

  constructor(generations: Generations, from: Generation) {
    this.#generations = generations;
    this.#from = from;
    this.#entries = new Map(from.manifest.entries);
    this.#floors = new Map(from.manifest.floors);
  }

  async read(name: string): Promise<Uint8Array | null> {
    const content = await this.readOrOutdated(name);
    if (content === OUTDATED) throw new Outdated("the generation of this transaction went");
    return content;
  }

  async readText(name: string): Promise<string | null> {
    return textOf(await this.read(name));
  }

  async readOrOutdated(name: string): Promise<Uint8Array | null | typeof OUTDATED> {
    this.#check();
    checkName(name, "file name");
    const own = this.#writes.get(name);
    if (own !== undefined) return own;
    const file = this.#from.manifest.files.get(name);
    if (file === undefined) return null;
    return (await this.#generations.content(file)) ?? OUTDATED;
  }

  write(name: string, content: string | Uint8Array): void {
    this.#check();
    checkName(name, "file name");
    // A copy: what the caller does with its buffer later is not part of this change.
    const bytes = typeof content === "string" ? Buffer.from(content) : Uint8Array.from(content);
    this.#writes.set(name, bytes);
    this.#dirty = true;
  }

  delete(name: string): void {
    this.#check();
    checkName(name, "file name");
    this.#writes.set(name, null);
    this.#dirty = true;
  }

  entry(resource: string): UsedClaim | null {
    this.#check();
    return this.#entries.get(resource) ?? null;
  }

  entries(): ReadonlyMap<string, UsedClaim> {
    return this.#entries;
  }

  setEntry(resource: string, entry: UsedClaim | null): void {
    this.#check();
    if (entry === null) this.#entries.delete(resource);
    else this.#entries.set(resource, entry);
    this.#dirty = true;
  }

  floor(scope: string): bigint {
    return this.#floors.get(scope) ?? 0n;
  }

  raiseFloor(scope: string, token: bigint): void {
    this.#check();
    if (token <= this.floor(scope)) return;
    this.#floors.set(scope, token);
    this.#dirty = true;
  }

  /** Ends it; a transaction that changed nothing, not even by a verify, needs no generation. */
  async commit(): Promise<"committed" | "conflict"> {
    this.end();
    if (!this.#dirty) return "committed";
    return this.#generations.commit({
      from: this.#from,
      parts: { entries: this.#entries, floors: this.#floors },
      writes: this.#writes,
    });
  }

  end(): void {
    this.#ended = true;
  }

  #check(): void {
    if (this.#ended)
      throw new InvalidArgumentError("Expected an open transaction: this one has ended.");
  }
}

/** Begins a transaction on the current generation. @throws InvalidArgumentError for what `s3Store` did not make */
export async function begin(store: S3Store): Promise<Transaction> {
  if (!(store instanceof Store))
    throw new InvalidArgumentError("Expected a store made by s3Store().");
  return new Transaction(store.generations, await store.generations.current("begin"));
}

/** The transaction behind what a user passes. @throws InvalidArgumentError for anything else */
export function transactionOf(tx: S3Transaction): Transaction {
  if (tx instanceof Transaction) return tx;
  throw new InvalidArgumentError("Expected a transaction of an S3 store.");
}

/** Runs `fn` on the current generation and commits, again from the start while other changes come first. */
export async function change<T>(
  store: S3Store,
  operation: string,
  limitMs: number,
  fn: (tx: Transaction) => Promise<T>,
): Promise<T> {
  return optimistically(operation, limitMs, async () => {
    const tx = await begin(store);
    let result: T;
    try {
      result = await fn(tx);
    } catch (error) {
      if (error instanceof Outdated) return CONFLICT;
      throw error;
    } finally {
      tx.end();
    }
    return (await tx.commit()) === "conflict" ? CONFLICT : result;
  });
}

function textOf(content: Uint8Array | null): string | null {
  return content === null ? null : Buffer.from(content).toString("utf8");
}
