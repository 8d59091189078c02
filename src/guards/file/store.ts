import { resolve } from "node:path";
import { BackendError, InvalidArgumentError, RingfenceError } from "../../core/errors.ts";
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
import {
  type Committed,
  commit,
  contentOf,
  currentGeneration,
  type Generation,
} from "./generations.ts";

/** One transaction of a file store: a consistent view of one generation, and changes that become the next one whole. */
export type FileTransaction = FilesTransaction;

/**
 * Named contents in one directory, with the guard's entries beside them. Everything in one directory changes as one:
 * put together what is claimed together, and nothing else. Names follow the rules of lock names.
 */
export interface FileStore extends FilesStore {
  readonly dir: string;
}

/**
 * A store in `dir`, which is made at the first use. It needs a local file system with hard links (ext4, xfs, btrfs,
 * zfs, tmpfs, apfs, NTFS), not NFS or SMB. Each change is on the disk before it is reported, at the price of a few
 * fsyncs, and copies the list of all names: meant for up to some thousand files and tens of changes a second.
 */
export function fileStore(dir: string): FileStore {
  if (typeof dir !== "string" || dir === "")
    throw new InvalidArgumentError("Expected the directory of a file store to be a path.");
  return new Store(resolve(dir));
}

class Store implements FileStore {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
  }

  async read(name: string): Promise<Uint8Array | null> {
    return readCommitted(name, async () => begin(this));
  }

  async readText(name: string): Promise<string | null> {
    return textOf(await this.read(name));
  }

  async transaction<T>(fn: (tx: FileTransaction) => Promise<T>): Promise<T> {
    return change(this, "transaction", Infinity, fn);
  }
}

/** A transaction as the guard sees it. */
class Transaction extends OpenFiles {
  readonly #dir: string;
  readonly #from: Generation;

  constructor(dir: string, from: Generation) {
    super(from.manifest, async (file) => contentOf(dir, file));
    this.#dir = dir;
    this.#from = from;
  }

  async commit(): Promise<Committed> {
    const changes = this.finish();
    if (changes === null) return "committed";
    return commit(this.#dir, { from: this.#from, ...changes });
  }
}

/** Begins a transaction on the current generation. @throws InvalidArgumentError for what `fileStore` did not make */
export async function begin(store: FileStore): Promise<Transaction> {
  if (!(store instanceof Store))
    throw new InvalidArgumentError("Expected a store made by fileStore().");
  return new Transaction(store.dir, await currentGeneration(store.dir));
}

/** The transaction behind what a user passes. @throws InvalidArgumentError for anything else */
export function transactionOf(tx: FileTransaction): Transaction {
  if (tx instanceof Transaction) return tx;
  throw new InvalidArgumentError("Expected a transaction of a file store.");
}

/** Runs `fn` on the current generation and commits, again from the start while other changes come first. */
export async function change<T>(
  store: FileStore,
  operation: string,
  limitMs: number,
  fn: (tx: Transaction) => Promise<T>,
): Promise<T> {
  return optimistically(operation, limitMs, async () => {
    const tx = await step(operation, "not-applied", async () => begin(store));
    const result = await runBody(tx, fn);
    if (result === OUTDATED) return CONFLICT;
    const outcome = await step(operation, "unknown", async () => tx.commit());
    if (outcome === "unknown")
      throw new BackendError(
        `The store ${store.dir} went so far ahead during ${operation} that nobody can say whether it was applied`,
        { operation, outcome: "unknown" },
      );
    return outcome === "conflict" ? CONFLICT : result;
  });
}

/** Runs one of our own steps; what the file system says becomes a typed error. */
async function step<T>(
  operation: string,
  outcome: "not-applied" | "unknown",
  fn: () => Promise<T>,
): Promise<T> {
  try {
    return await fn();
  } catch (error) {
    if (error instanceof RingfenceError) throw error;
    const facts = { operation, outcome, cause: error };
    throw new BackendError(`The file system failed during ${operation}`, facts);
  }
}
