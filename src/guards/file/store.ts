import { resolve } from "node:path";
import {
  BackendError,
  BackendUnavailableError,
  InvalidArgumentError,
  RingfenceError,
} from "../../core/errors.ts";
import type { EntryBook, UsedClaim } from "../../core/guard-entries.ts";
import { checkName } from "../../core/lock-name.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import {
  type Committed,
  commit,
  contentOf,
  currentGeneration,
  type Generation,
} from "./generations.ts";

/** How long a change that no lease bounds starts again while others come first. */
const CONFLICT_LIMIT_MS = 5000;
const MAX_PAUSE_MS = 25;

/** One transaction of a file store: a consistent view of one generation, and changes that become the next one whole. */
export interface FileTransaction {
  /** The content of a file; `null` when there is none. */
  read(name: string): Promise<Uint8Array | null>;
  /** The same as UTF-8 text. */
  readText(name: string): Promise<string | null>;
  write(name: string, content: string | Uint8Array): void;
  delete(name: string): void;
}

/**
 * Named contents in one directory, with the guard's entries beside them. Everything in one directory changes as one:
 * put together what is claimed together, and nothing else. Names follow the rules of lock names.
 */
export interface FileStore {
  readonly dir: string;
  /** The committed content; `null` when there is none. Asks no guard: for readers that hold nothing. */
  read(name: string): Promise<Uint8Array | null>;
  /** The same as UTF-8 text. */
  readText(name: string): Promise<string | null>;
  /**
   * Runs `fn` and commits what it changed; nothing when it throws. For writes that a long job makes after its claim:
   * verify in it first. `fn` runs again, on the newer state, when another change came first.
   * @throws BackendUnavailableError after 5 s of others coming first, BackendError
   */
  transaction<T>(fn: (tx: FileTransaction) => Promise<T>): Promise<T>;
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
    for (;;) {
      const content = await new Transaction(
        this.dir,
        await currentGeneration(this.dir),
      ).readOrOutdated(name);
      if (content !== OUTDATED) return content;
    }
  }

  async readText(name: string): Promise<string | null> {
    return textOf(await this.read(name));
  }

  async transaction<T>(fn: (tx: FileTransaction) => Promise<T>): Promise<T> {
    return change(this, "transaction", Infinity, fn);
  }
}

const OUTDATED: unique symbol = Symbol("outdated");

/** Thrown inside a body whose generation is no longer readable: it starts again. */
class Outdated extends Error {}

/** A transaction as the guard sees it. */
export class Transaction implements FileTransaction, EntryBook {
  readonly #dir: string;
  readonly #from: Generation;
  readonly #writes = new Map<string, Uint8Array | null>();
  readonly #entries: Map<string, UsedClaim>;
  readonly #floors: Map<string, bigint>;
  #dirty = false;
  #ended = false;

  constructor(dir: string, from: Generation) {
    this.#dir = dir;
    this.#from = from;
    this.#entries = new Map(from.manifest.entries);
    this.#floors = new Map(from.manifest.floors);
  }

  async read(name: string): Promise<Uint8Array | null> {
    const content = await this.readOrOutdated(name);
    if (content === OUTDATED) throw new Outdated("the generation of this transaction was pruned");
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
    return (await contentOf(this.#dir, file)) ?? OUTDATED;
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
  async commit(): Promise<Committed> {
    this.end();
    if (!this.#dirty) return "committed";
    return commit(this.#dir, {
      from: this.#from,
      manifest: { entries: this.#entries, floors: this.#floors },
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

/** Begins a transaction on the current generation. */
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

/**
 * Runs `fn` on the current generation and commits, again from the start while other changes come first: for `limitMs`,
 * or 5 s when that is Infinity.
 */
export async function change<T>(
  store: FileStore,
  operation: string,
  limitMs: number,
  fn: (tx: Transaction) => Promise<T>,
): Promise<T> {
  const end = systemClock.mono() + (limitMs === Infinity ? CONFLICT_LIMIT_MS : limitMs);
  for (let tries = 0; ; tries += 1) {
    const tx = await step(operation, "not-applied", async () => begin(store));
    const result = await runBody(tx, fn);
    if (result !== OUTDATED) {
      const outcome = await step(operation, "unknown", async () => tx.commit());
      if (outcome === "committed") return result;
      if (outcome === "unknown")
        throw new BackendError(
          `The store ${store.dir} went so far ahead during ${operation} that nobody can say whether it was applied`,
          { operation, outcome: "unknown" },
        );
    }
    if (systemClock.mono() >= end)
      throw new BackendUnavailableError(
        `Other changes of ${store.dir} came first throughout ${operation}`,
        { operation, outcome: "not-applied" },
      );
    await sleep(Math.min(MAX_PAUSE_MS, 2 ** tries) * systemRandom.unit());
  }
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

async function runBody<T>(
  tx: Transaction,
  fn: (tx: Transaction) => Promise<T>,
): Promise<T | typeof OUTDATED> {
  try {
    return await fn(tx);
  } catch (error) {
    tx.end();
    if (error instanceof Outdated) return OUTDATED;
    throw error;
  }
}

function textOf(content: Uint8Array | null): string | null {
  return content === null ? null : Buffer.from(content).toString("utf8");
}

async function sleep(ms: number): Promise<void> {
  await new Promise<void>((done) => {
    systemClock.timer(ms, done, true);
  });
}
