/** Named contents that change as one, generation by generation, with a guard's entries beside them: files, objects. */
import type { Clock } from "./clock.ts";
import { InvalidArgumentError } from "./errors.ts";
import {
  type Credential,
  type Guard,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  resourceList,
} from "./guard.ts";
import { checkAdoption, purgeTime } from "./guard-decision.ts";
import {
  adoptOne,
  claimAll,
  type EntryBook,
  purgeBefore,
  type UsedClaim,
  verifyAll,
} from "./guard-entries.ts";
import type { FilesState } from "./guard-manifest.ts";
import { checkName } from "./lock-name.ts";
import type { Mac } from "./mac.ts";

const ENCODER = new TextEncoder();
// A leading U+FEFF is content, not a mark of the encoding.
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });

/** One transaction: a consistent view of one generation, and changes that become the next one whole. */
export interface FilesTransaction {
  /** The content of a file; `null` when there is none. */
  read(name: string): Promise<Uint8Array | null>;
  /** The same as UTF-8 text. */
  readText(name: string): Promise<string | null>;
  write(name: string, content: string | Uint8Array): void;
  delete(name: string): void;
}

/** What such a store gives its users. */
export interface FilesStore {
  /** The committed content; `null` when there is none. Asks no guard: for readers that hold nothing. */
  read(name: string): Promise<Uint8Array | null>;
  /** The same as UTF-8 text. */
  readText(name: string): Promise<string | null>;
  /**
   * Runs `fn` and commits what it changed; nothing when it throws. For writes that a long job makes after its claim:
   * verify in it first. `fn` runs again, on the newer state, when another change came first.
   * @throws BackendUnavailableError after 5 s of others coming first, BackendError
   */
  transaction<T>(fn: (tx: FilesTransaction) => Promise<T>): Promise<T>;
}

/** A guard over such a store. */
export interface FilesGuard<Store> extends Guard<Store, FilesTransaction> {
  /**
   * Replaces one file by what `fn` makes of its content (`null`: no such file), under a claim of the resource with the
   * file's name. `fn` may run more than once. Resolves to the new content.
   * @throws as `run`
   */
  update<T extends string | Uint8Array>(
    store: Store,
    name: string,
    credential: Credential,
    fn: (current: string | null) => T | Promise<T>,
  ): Promise<T>;
}

/** What a transaction changed. */
export interface FilesChanges extends Omit<FilesState, "files"> {
  /** New content per name; `null` deletes. */
  readonly writes: ReadonlyMap<string, Uint8Array | null>;
}

/** The generation of a transaction is no longer readable: it starts again. */
export const OUTDATED: unique symbol = Symbol("outdated");

class Outdated extends Error {}

/** A transaction as its guard sees it. */
export class OpenFiles implements FilesTransaction, EntryBook {
  readonly #files: ReadonlyMap<string, string>;
  readonly #contentOf: (file: string) => Promise<Uint8Array | null>;
  readonly #writes = new Map<string, Uint8Array | null>();
  readonly #entries: Map<string, UsedClaim>;
  readonly #floors: Map<string, bigint>;
  #dirty = false;
  #ended = false;

  /** `contentOf`: what is in a file of this generation, `null` when it went because the store went on. */
  constructor(from: FilesState, contentOf: (file: string) => Promise<Uint8Array | null>) {
    this.#files = from.files;
    this.#contentOf = contentOf;
    this.#entries = new Map(from.entries);
    this.#floors = new Map(from.floors);
  }

  async read(name: string): Promise<Uint8Array | null> {
    const content = await this.readOrOutdated(name);
    if (content === OUTDATED) throw new Outdated("the generation of this transaction is gone");
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
    const file = this.#files.get(name);
    if (file === undefined) return null;
    return (await this.#contentOf(file)) ?? OUTDATED;
  }

  write(name: string, content: string | Uint8Array): void {
    this.#check();
    checkName(name, "file name");
    // A copy: what the caller does with its buffer later is not part of this change.
    const bytes = typeof content === "string" ? ENCODER.encode(content) : Uint8Array.from(content);
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

  /** Ends it; `null` when it changed nothing, not even by a verify, and needs no generation. */
  finish(): FilesChanges | null {
    this.#ended = true;
    if (!this.#dirty) return null;
    return { entries: this.#entries, floors: this.#floors, writes: this.#writes };
  }

  #check(): void {
    if (this.#ended)
      throw new InvalidArgumentError("Expected an open transaction: this one has ended.");
  }
}

/** Runs a body in a transaction, which it ends when the body fails. */
export async function runBody<Tx extends OpenFiles, T>(
  tx: Tx,
  fn: (tx: Tx) => Promise<T>,
): Promise<T | typeof OUTDATED> {
  try {
    return await fn(tx);
  } catch (error) {
    tx.finish();
    if (error instanceof Outdated) return OUTDATED;
    throw error;
  }
}

/** The committed content of a file, by as many transactions as it takes to find a generation that stays for so long. */
export async function readCommitted(
  name: string,
  begin: () => Promise<OpenFiles>,
): Promise<Uint8Array | null> {
  for (;;) {
    const content = await (await begin()).readOrOutdated(name);
    if (content !== OUTDATED) return content;
  }
}

export function textOf(content: Uint8Array | null): string | null {
  return content === null ? null : DECODER.decode(content);
}

/** What the guard of a kind of store is made of. */
interface FilesGuardParts<Store, Tx extends OpenFiles> {
  readonly mac: Mac;
  readonly clock: Clock;
  /** Runs a body on the current generation and commits, again while others come first: for so long. */
  readonly change: <T>(
    store: Store,
    operation: string,
    limitMs: number,
    fn: (tx: Tx) => Promise<T>,
  ) => Promise<T>;
  /** @throws InvalidArgumentError for what is no transaction of this kind of store */
  readonly transactionOf: (tx: FilesTransaction) => Tx;
}

/** @throws InvalidArgumentError for a key that could not protect anything */
export function filesGuard<Store, Tx extends OpenFiles>(
  options: GuardOptions,
  { mac, clock, change, transactionOf }: FilesGuardParts<Store, Tx>,
): FilesGuard<Store> {
  const keys = guardKeys(options);
  const read = (credential: Credential): Presentation => presentationOf(credential, keys, mac);
  const run: FilesGuard<Store>["run"] = async (store, resources, credential, fn) => {
    const [list, mine] = [resourceList(resources), read(credential)];
    if (typeof fn !== "function")
      throw new InvalidArgumentError("Expected the body of `run` to be a function.");
    return change(store, "run", mine.remainingMs(), async (tx) => {
      claimAll(tx, list, mine, clock.wall());
      return fn(tx);
    });
  };
  return {
    run,
    async claim(store, resources, credential) {
      const [list, mine] = [resourceList(resources), read(credential)];
      await change(store, "claim", mine.remainingMs(), async (tx) => {
        claimAll(tx, list, mine, clock.wall());
      });
    },
    async verify(transaction, resources, credential) {
      const [list, mine] = [resourceList(resources), read(credential)];
      verifyAll(transactionOf(transaction), list, mine, clock.wall());
    },
    async update(store, name, credential, fn) {
      return run(store, name, credential, async (tx) => {
        const made = await fn(await tx.readText(name));
        tx.write(name, made);
        return made;
      });
    },
    async adopt(store, resource, adoption) {
      checkName(resource, "resource");
      checkAdoption(adoption);
      await change(store, "adopt", Infinity, async (tx) => {
        adoptOne(tx, resource, adoption, clock.wall());
      });
    },
    async purge(store, before) {
      const time = purgeTime(before);
      return change(store, "purge", Infinity, async (tx) => purgeBefore(tx, time));
    },
  };
}
