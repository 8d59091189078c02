import { createHash } from "node:crypto";
import {
  BackendConfigError,
  type BackendError,
  BackendUnavailableError,
  GuardScopeError,
  InvalidArgumentError,
  RingfenceError,
  StaleTokenError,
} from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import type { Claim } from "../../core/guard.ts";
import { CONFLICT, optimistically } from "../../runtime/optimistic.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import { type RedisConnection, type Wire, wireOf } from "./client.ts";
import { COMMIT, READ, type Script } from "./lua.ts";

/** The key with the entries, behind the tag. */
const GUARD_KEY = "ringfence-guard";

/**
 * One transaction of a Redis store: reads go to the primary, writes wait for the end. They are applied in one script,
 * and only if everything that was read is still so.
 */
export interface RedisTransaction {
  get(key: string): Promise<string | null>;
  hget(key: string, field: string): Promise<string | null>;
  hgetall(key: string): Promise<ReadonlyMap<string, string>>;
  /** `ttlMs`: the key goes by itself after so many milliseconds. */
  set(key: string, value: string, options?: { readonly ttlMs?: number }): void;
  hset(key: string, fields: Readonly<Record<string, string>>): void;
  hdel(key: string, field: string): void;
  delete(key: string): void;
}

/**
 * The keys of one hash tag, with the guard's entries beside them. One script reaches all of them, on a Cluster too, so
 * put together what is claimed together. Values are text.
 */
export interface RedisStore {
  readonly tag: string;
  /** The whole key, as other programs read it: `{tag}:key`. */
  key(key: string): string;
  /**
   * Runs `fn` and applies what it wrote; nothing when it throws. For writes that a long job makes after its claim:
   * verify in it first. `fn` runs again when something that it read has changed.
   * @throws BackendUnavailableError after 5 s of others coming first, StaleTokenError at the end of a verified one
   */
  transaction<T>(fn: (tx: RedisTransaction) => Promise<T>): Promise<T>;
}

/**
 * The store under a hash tag: `{tag}:…`, the same slot for all of it.
 * @param client - of `ioredis` or `redis` (node-redis), connected; used as it is and never closed
 * @param tag - 1 or more characters without braces
 * @throws InvalidArgumentError
 */
export function redisStore(client: RedisConnection, tag: string): RedisStore {
  if (typeof tag !== "string" || tag === "" || /[{}]/.test(tag))
    throw new InvalidArgumentError("Expected the tag of a Redis store to be text without braces.");
  return new Store(wireOf(client), tag);
}

/** The store as the guard sees it. */
export class Store implements RedisStore {
  readonly tag: string;
  readonly #wire: Wire;

  constructor(wire: Wire, tag: string) {
    this.#wire = wire;
    this.tag = tag;
  }

  key(key: string): string {
    if (typeof key !== "string" || key === "" || key === GUARD_KEY)
      throw new InvalidArgumentError(`Expected a key other than "${GUARD_KEY}", got "${key}".`);
    return `{${this.tag}}:${key}`;
  }

  async transaction<T>(fn: (tx: RedisTransaction) => Promise<T>): Promise<T> {
    return this.change("transaction", Infinity, fn);
  }

  async change<T>(
    operation: string,
    limitMs: number,
    fn: (tx: Transaction) => Promise<T>,
  ): Promise<T> {
    return optimistically(operation, limitMs, async () => {
      const tx = new Transaction(this);
      let result: T;
      try {
        result = await fn(tx);
      } finally {
        tx.end();
      }
      return (await tx.commit()) === "conflict" ? CONFLICT : result;
    });
  }

  /** Runs one script on the store's server: its reply, which is a list. @throws BackendError */
  async script(
    { name, text }: Script,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<readonly unknown[]> {
    const guardKey = `${this.#wire.prefix}{${this.tag}}:${GUARD_KEY}`;
    const rest = [
      String(keys.length + 1),
      guardKey,
      ...keys.map((key) => this.#wire.prefix + key),
      ...args,
    ];
    try {
      const sha = createHash("sha1").update(text).digest("hex");
      const reply = await this.#wire
        .send(guardKey, ["EVALSHA", sha, ...rest])
        .catch(async (error: unknown) => {
          if (codeOf(error) !== "NOSCRIPT") throw error;
          return this.#wire.send(guardKey, ["EVAL", text, ...rest]);
        });
      return checked(name, reply);
    } catch (error) {
      throw error instanceof RingfenceError ? error : failed(name, error);
    }
  }
}

/** The store behind what a user passes. @throws InvalidArgumentError for anything that `redisStore` did not make */
export function storeOf(store: RedisStore): Store {
  if (store instanceof Store) return store;
  throw new InvalidArgumentError("Expected a store made by redisStore().");
}

interface Holder {
  readonly claim: Claim;
  readonly list: readonly string[];
}

type Read = readonly [what: "g" | "h" | "a", key: string, field: string, value: unknown];
type Write =
  | readonly ["set", key: string, value: string, ttlMs: string]
  | readonly ["del", key: string]
  | readonly ["hset", key: string, field: string, value: string]
  | readonly ["hdel", key: string, field: string];

/** A transaction as the guard sees it. */
export class Transaction implements RedisTransaction {
  readonly store: Store;
  readonly #holders: Holder[] = [];
  readonly #reads = new Map<string, Read>();
  readonly #writes: Write[] = [];
  #ended = false;

  constructor(store: Store) {
    this.store = store;
  }

  async get(key: string): Promise<string | null> {
    this.#check();
    const own = this.#writes.findLast((write) => write[1] === key);
    if (own?.[0] === "set") return own[2];
    if (own !== undefined) return null;
    return (await this.#read("g", key, "")) as string | null;
  }

  async hget(key: string, field: string): Promise<string | null> {
    this.#check();
    for (const write of [...this.#writes].reverse()) {
      if (write[1] !== key) continue;
      if (write[0] === "hset" && write[2] === field) return write[3];
      if (write[0] !== "hset" && (write[0] !== "hdel" || write[2] === field)) return null;
    }
    return (await this.#read("h", key, field)) as string | null;
  }

  async hgetall(key: string): Promise<ReadonlyMap<string, string>> {
    this.#check();
    const emptied = this.#writes.findLastIndex(
      ([what, of]) => of === key && (what === "del" || what === "set"),
    );
    const flat = emptied < 0 ? ((await this.#read("a", key, "")) as readonly string[]) : [];
    const found = new Map<string, string>();
    for (let i = 0; i < flat.length; i += 2) found.set(flat[i] ?? "", flat[i + 1] ?? "");
    for (const write of this.#writes.slice(emptied + 1)) {
      if (write[1] !== key) continue;
      if (write[0] === "hset") found.set(write[2], write[3]);
      else if (write[0] === "hdel") found.delete(write[2]);
    }
    return found;
  }

  set(key: string, value: string, { ttlMs }: { readonly ttlMs?: number } = {}): void {
    if (ttlMs !== undefined && (!Number.isSafeInteger(ttlMs) || ttlMs < 1))
      throw new InvalidArgumentError("Expected `ttlMs` to be a whole number of milliseconds.");
    this.#write(["set", key, text(value), ttlMs === undefined ? "" : String(ttlMs)]);
  }

  hset(key: string, fields: Readonly<Record<string, string>>): void {
    for (const [field, value] of Object.entries(fields))
      this.#write(["hset", key, field, text(value)]);
  }

  hdel(key: string, field: string): void {
    this.#write(["hdel", key, text(field)]);
  }

  delete(key: string): void {
    this.#write(["del", key]);
  }

  /** The commit passes only while these entries have this pair. */
  require(list: readonly string[], claim: Claim): void {
    this.#check();
    this.#holders.push({ list, claim });
  }

  /** The entry of a resource as it stands now. */
  async entry(resource: string): Promise<Claim | null> {
    this.#check();
    return entryOf(await this.store.script(READ, [], ["e", resource]));
  }

  end(): void {
    this.#ended = true;
  }

  /** @throws StaleTokenError, GuardScopeError, BackendError */
  async commit(): Promise<"committed" | "conflict"> {
    this.end();
    if (this.#holders.length === 0 && this.#writes.length === 0) return "committed";
    const keys: string[] = [];
    const at = (key: string): number => {
      const full = this.store.key(key);
      const known = keys.indexOf(full);
      // KEYS[1] is the guard's own.
      return (known < 0 ? keys.push(full) - 1 : known) + 2;
    };
    const plan = {
      commit: randomId(),
      holders: this.#holders.map(({ claim: { token, grantId, scope }, list }) => [
        token.toString(),
        grantId,
        scope,
        list,
      ]),
      reads: [...this.#reads.values()].map(([what, key, ...rest]) => [what, at(key), ...rest]),
      writes: this.#writes.map(([what, key, ...rest]) => [what, at(key), ...rest]),
    };
    const reply = await this.store.script(COMMIT, keys, [JSON.stringify(plan)]);
    if (reply[0] === 3) return "conflict";
    const [holder] = this.#holders;
    // Code 4: a client that re-sends on its own has brought this very commit twice; the first time it was applied.
    if (holder !== undefined && reply[0] !== 4) refuse(reply, holder.list, holder.claim, "verify");
    return "committed";
  }

  async #read(what: "g" | "h" | "a", key: string, field: string): Promise<unknown> {
    const known = this.#reads.get(`${what}\0${key}\0${field}`);
    if (known !== undefined) return known[3];
    const reply = await this.store.script(READ, [this.store.key(key)], [what, field]);
    const value = reply[1] ?? (what === "a" ? [] : null);
    // What was asked first counts: a value that changed meanwhile fails the commit.
    this.#reads.set(`${what}\0${key}\0${field}`, [what, key, field, value]);
    return value;
  }

  #write(write: Write): void {
    this.#check();
    this.store.key(write[1]);
    const [what, key] = write;
    const before = this.#writes.findLast((own) => own[1] === key)?.[0];
    // The script could only find out in the middle, with half of it written.
    if (before === "set" && (what === "hset" || what === "hdel"))
      throw new InvalidArgumentError(`Expected "${key}" to be a text or a hash, not both at once.`);
    this.#writes.push(write);
  }

  #check(): void {
    if (this.#ended)
      throw new InvalidArgumentError("Expected an open transaction: this one has ended.");
  }
}

/** The transaction behind what a user passes. @throws InvalidArgumentError for anything else */
export function transactionOf(tx: RedisTransaction): Transaction {
  if (tx instanceof Transaction) return tx;
  throw new InvalidArgumentError("Expected a transaction of a Redis store.");
}

/** An entry from the reply of `READ`. */
export function entryOf(reply: readonly unknown[]): Claim | null {
  const found = reply[1];
  if (typeof found !== "string") return null;
  const [token = "0", grantId = "", scope = ""] = found.split("|");
  return { token: BigInt(token), grantId, scope };
}

/** 120 random bits: no two commits share an id. */
export function randomId(): string {
  return Buffer.from(systemRandom.bytes(15)).toString("base64url");
}

/** @throws StaleTokenError, GuardScopeError when the reply is a refusal */
export function refuse(
  reply: readonly unknown[],
  list: readonly string[],
  mine: Claim,
  step: "claim" | "verify",
): void {
  const [code, at, found] = reply;
  const resource = list[Number(at)] ?? "";
  if (code === 2) throw new GuardScopeError(resource, String(found), mine.scope);
  if (code !== 0) return;
  const highest = found === "" ? null : (parseToken(found) ?? 0n);
  throw new StaleTokenError({ resource, presented: mine.token, highest, step });
}

function text(value: unknown): string {
  if (typeof value === "string") return value;
  throw new InvalidArgumentError("Expected the values of a Redis store to be text.");
}

function checked(operation: string, reply: unknown): readonly unknown[] {
  const list = reply as readonly unknown[];
  if (list[0] === 5)
    throw new BackendConfigError(
      `The guard's entries have format ${String(list[1])}; this version knows 1. Update ringfence here.`,
      { operation, outcome: "not-applied" },
    );
  if (list[0] === 6)
    throw new BackendConfigError(`${String(list[1])} is no hash: nothing was written`, {
      operation,
      outcome: "not-applied",
    });
  return list;
}

/** Refusals that come before a script's first write. */
const NOT_NOW = ["READONLY", "MISCONF", "OOM", "LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS"];
const CLUSTER = ["CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"];
const CONFIG = ["CROSSSLOT", "NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "ERR"];

function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? /^([A-Z][A-Z0-9]+)(?: |$)/.exec(error.message)?.[1] : undefined;
}

function failed(operation: string, cause: unknown): BackendError {
  const code = codeOf(cause) ?? "";
  const said = `Redis failed during ${operation}: ${cause instanceof Error ? cause.message : ""}`;
  if (NOT_NOW.includes(code) || CLUSTER.includes(code))
    return new BackendUnavailableError(said, { operation, outcome: "not-applied", cause });
  if (CONFIG.includes(code))
    return new BackendConfigError(said, { operation, outcome: "unknown", cause });
  // The connection ended, or nothing came in time: it may or may not have been applied.
  return new BackendUnavailableError(said, { operation, outcome: "unknown", cause });
}
