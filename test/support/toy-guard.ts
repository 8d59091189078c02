import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type Claim,
  type Credential,
  type GuardOptions,
  presentationOf,
  resourceList,
} from "../../src/core/guard.ts";
import {
  checkAdoption,
  decideAdoption,
  decideClaim,
  decideVerify,
  purgeTime,
} from "../../src/core/guard-decision.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";
import type { GuardFixture, GuardUnderTest } from "../../src/testing/index.ts";
import { temporaryFolder } from "./guard-fixtures.ts";

/** A transaction of a toy store: what it saw at its begin, and what it changed. */
export interface ToyTx {
  readonly seen: ReadonlyMap<string, string>;
  readonly writes: Map<string, string | null>;
}

/** A key-value store with transactions. */
export interface ToyStore {
  begin(): Promise<ToyTx>;
  /** Rejects with `Conflict` when the transaction must begin again. */
  commit(tx: ToyTx): Promise<void>;
}

class Conflict extends Error {}

/**
 * Snapshots, of which the first to commit wins: what PostgreSQL calls REPEATABLE READ. Reads take no locks, so a write
 * that rests on a mere read can be overtaken.
 */
function snapshotStore(): ToyStore {
  let committed: ReadonlyMap<string, string> = new Map();
  return {
    begin: async () => ({ seen: committed, writes: new Map() }),
    async commit({ seen, writes }) {
      for (const key of writes.keys())
        if (committed.get(key) !== seen.get(key)) throw new Conflict("somebody was first");
      committed = apply(committed, writes);
    },
  };
}

/** One file, replaced by rename: whoever renames last wins, whatever it had read. */
function renameStore(dir: string): ToyStore {
  const file = join(dir, "manifest.json");
  const load = async (): Promise<ReadonlyMap<string, string>> =>
    readFile(file, "utf8").then(
      (text) => new Map(JSON.parse(text) as [string, string][]),
      () => new Map(),
    );
  let temporaries = 0;
  return {
    begin: async () => ({ seen: await load(), writes: new Map() }),
    async commit({ seen, writes }) {
      temporaries += 1;
      const temporary = join(dir, `temporary-${temporaries}`);
      await writeFile(temporary, JSON.stringify([...apply(seen, writes)]));
      await rename(temporary, file);
    },
  };
}

function apply(
  seen: ReadonlyMap<string, string>,
  writes: ReadonlyMap<string, string | null>,
): ReadonlyMap<string, string> {
  const next = new Map(seen);
  for (const [key, value] of writes) {
    if (value === null) next.delete(key);
    else next.set(key, value);
  }
  return next;
}

function read(tx: ToyTx, key: string): string | null {
  const own = tx.writes.get(key);
  return own === undefined ? (tx.seen.get(key) ?? null) : own;
}

/** The steps of the toy guard, each of which can be planted wrong. */
export interface Rules {
  decideClaim: typeof decideClaim;
  decideVerify: typeof decideVerify;
  decideAdoption: typeof decideAdoption;
  present: (credential: Credential, options: GuardOptions) => ReturnType<typeof presentationOf>;
  /** Writes the entry again, so that a claim meanwhile is a conflict. */
  verifyWrites: boolean;
  claims: "together" | "one by one" | "in the body's transaction only" | "never";
  verifiesAll: boolean;
  rollsBack: boolean;
  claimsFirst: boolean;
  floor: "highest" | "latest" | "none" | "one for all scopes";
}

/** The right rules: with them the toy passes the contract. */
export const RIGHT: Rules = {
  decideClaim,
  decideVerify,
  decideAdoption,
  present: (credential, options) => presentationOf(credential, options.keys ?? [], systemMac),
  verifyWrites: true,
  claims: "together",
  verifiesAll: true,
  rollsBack: true,
  claimsFirst: true,
  floor: "highest",
};

interface Stored {
  readonly token: string;
  readonly grantId: string;
  readonly scope: string;
  readonly usedAtMs: number;
}

const ENTRY = "entry:";

class ToyGuard implements GuardUnderTest<ToyStore, ToyTx> {
  readonly rules: Rules;
  readonly options: GuardOptions;

  constructor(rules: Rules, options: GuardOptions) {
    this.rules = rules;
    this.options = options;
  }

  async run(
    store: ToyStore,
    resources: string | readonly string[],
    credential: Credential,
    fn: (tx: ToyTx) => unknown,
  ): Promise<unknown> {
    const [list, mine] = [resourceList(resources), this.rules.present(credential, this.options)];
    return retried(async () => {
      const tx = await store.begin();
      const claim = (): void => {
        mine.checkDeadline();
        for (const resource of list)
          this.rules.decideClaim(resource, this.#standing(tx, resource, mine.scope), mine);
        for (const resource of list) install(tx, resource, mine);
      };
      if (this.rules.claimsFirst) claim();
      let result: unknown;
      try {
        result = await fn(tx);
      } catch (error) {
        if (!this.rules.rollsBack) await store.commit(tx);
        throw error;
      }
      if (!this.rules.claimsFirst) claim();
      await store.commit(tx);
      return result;
    });
  }

  async claim(
    store: ToyStore,
    resources: string | readonly string[],
    credential: Credential,
  ): Promise<void> {
    const [list, mine] = [resourceList(resources), this.rules.present(credential, this.options)];
    mine.checkDeadline();
    if (this.rules.claims === "never") return;
    const parts = this.rules.claims === "one by one" ? list.map((one) => [one]) : [list];
    for (const part of parts)
      await retried(async () => {
        const tx = await store.begin();
        for (const resource of part)
          this.rules.decideClaim(resource, this.#standing(tx, resource, mine.scope), mine);
        for (const resource of part) install(tx, resource, mine);
        await store.commit(tx);
      });
  }

  async verify(
    tx: ToyTx,
    resources: string | readonly string[],
    credential: Credential,
  ): Promise<void> {
    const [list, mine] = [resourceList(resources), this.rules.present(credential, this.options)];
    mine.checkDeadline();
    for (const resource of this.rules.verifiesAll ? list : list.slice(0, 1)) {
      this.rules.decideVerify(resource, entryOf(tx, resource), mine);
      if (this.rules.verifyWrites) install(tx, resource, mine);
    }
  }

  async adopt(
    store: ToyStore,
    resource: string,
    adoption: { from: string; to: string; floor: bigint },
  ): Promise<void> {
    checkAdoption(adoption);
    const tx = await store.begin();
    const standing = this.#standing(tx, resource, adoption.to);
    const move = this.rules.decideAdoption(resource, standing, adoption);
    if (move === null) return;
    this.#raise(tx, adoption.from, move.leftFloor);
    install(tx, resource, move.entry);
    await store.commit(tx);
  }

  async purge(store: ToyStore, before: Date): Promise<number> {
    const time = purgeTime(before);
    const tx = await store.begin();
    const old = [...tx.seen]
      .filter(([key]) => key.startsWith(ENTRY))
      .map(([key, text]) => [key, JSON.parse(text) as Stored] as const)
      .filter(([, { usedAtMs }]) => usedAtMs < time);
    for (const [key, { scope, token }] of old) {
      this.#raise(tx, scope, BigInt(token));
      tx.writes.set(key, null);
    }
    await store.commit(tx);
    return old.length;
  }

  #floorKey(scope: string): string {
    return this.rules.floor === "one for all scopes" ? "floor" : `floor:${scope}`;
  }

  #raise(tx: ToyTx, scope: string, token: bigint): void {
    const key = this.#floorKey(scope);
    if (this.rules.floor === "none") return;
    if (this.rules.floor === "latest" || token > BigInt(read(tx, key) ?? "0"))
      tx.writes.set(key, token.toString());
  }

  #standing(tx: ToyTx, resource: string, scope: string): { entry: Claim | null; floor: bigint } {
    return {
      entry: entryOf(tx, resource),
      floor: BigInt(read(tx, this.#floorKey(scope)) ?? "0"),
    };
  }
}

function entryOf(tx: ToyTx, resource: string): Claim | null {
  const text = read(tx, `${ENTRY}${resource}`);
  if (text === null) return null;
  const { token, grantId, scope } = JSON.parse(text) as Stored;
  return { token: BigInt(token), grantId, scope };
}

let writes = 0;

function install(tx: ToyTx, resource: string, { token, grantId, scope }: Claim): void {
  writes += 1;
  // The count makes every write another value, as a row version would.
  const stored = { token: token.toString(), grantId, scope, usedAtMs: Date.now(), writes };
  tx.writes.set(`${ENTRY}${resource}`, JSON.stringify(stored));
}

async function retried<T>(attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
    }
  }
}

/** The toy guard with some rules planted wrong. */
export function toyFixture(
  name: string,
  wrong: Partial<Rules> = {},
  store: "snapshot" | "rename" = "snapshot",
): GuardFixture<ToyStore, ToyTx> {
  return {
    name,
    bodies: "async",
    has: { openTransactions: true, fencedRows: false },
    async open() {
      const folder = temporaryFolder();
      const db = store === "snapshot" ? snapshotStore() : renameStore(folder.path);
      return {
        db,
        other: db,
        guard: (options = {}) => new ToyGuard({ ...RIGHT, ...wrong }, options),
        transaction: async (to, body) => {
          const tx = await to.begin();
          await body(tx);
          await to.commit(tx);
        },
        read: async (tx, key) => read(tx, `value:${key}`),
        write: (tx, key, value) => {
          tx.writes.set(`value:${key}`, value);
        },
        begin: async (to) => {
          const tx = await to.begin();
          return { tx, commit: async () => to.commit(tx), rollback: async () => undefined };
        },
        close: async () => {
          folder.remove();
        },
      };
    },
  };
}
