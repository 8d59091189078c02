import { InvalidArgumentError } from "../../core/errors.ts";
import {
  type FilesStore,
  type FilesTransaction,
  OpenFiles,
  OUTDATED,
  readCommitted,
  runBody,
  textOf,
} from "../../core/guard-files.ts";
import { CONFLICT, optimistically } from "../../runtime/optimistic.ts";
import { objectsAt, type S3Place } from "./client.ts";
import { type Generation, Generations } from "./generations.ts";

/** One transaction of a store: a consistent view of one generation, and changes that become the next one whole. */
export type S3Transaction = FilesTransaction;

/**
 * Named contents under one prefix of an object store, with the guard's entries beside them. Everything under it changes
 * as one: put together what is claimed together, and nothing else. Names follow the rules of lock names.
 */
export type S3Store = FilesStore;

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
    return readCommitted(name, async () => begin(this));
  }

  async readText(name: string): Promise<string | null> {
    return textOf(await this.read(name));
  }

  async transaction<T>(fn: (tx: S3Transaction) => Promise<T>): Promise<T> {
    return change(this, "transaction", Infinity, fn);
  }
}

/** A transaction as the guard sees it. */
class Transaction extends OpenFiles {
  readonly #generations: Generations;
  readonly #from: Generation;

  constructor(generations: Generations, from: Generation) {
    super(from.manifest, async (file) => generations.content(file));
    this.#generations = generations;
    this.#from = from;
  }

  async commit(): Promise<"committed" | "conflict"> {
    const changes = this.finish();
    if (changes === null) return "committed";
    return this.#generations.commit({ from: this.#from, ...changes });
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
    const result = await runBody(tx, fn);
    if (result === OUTDATED) return CONFLICT;
    return (await tx.commit()) === "conflict" ? CONFLICT : result;
  });
}
