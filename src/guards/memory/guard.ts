/*
 * A guard over values in this process.
 *
 * State: one entry per resource, (token, grant id, scope), and one floor per scope, beside the values in one store.
 * Atomic step: JavaScript runs one thing at a time and a transaction never awaits, so that a claim, or a verify with
 * the writes after it, happens at one instant. What breaks it: values that are reached around the store, objects that
 * are changed in place, and a second process or worker, which has a store of its own.
 */
import {
  type Adoption,
  type Credential,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  type Resources,
  resourceList,
  type SyncGuard,
} from "../../core/guard.ts";
import {
  checkAdoption,
  decideAdoption,
  decideClaim,
  decideVerify,
  purgeTime,
} from "../../core/guard-decision.ts";
import { checkName } from "../../core/lock-name.ts";
import { checkSyncBody } from "../../core/sync-body.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import {
  type MemoryEntry,
  type MemoryStore,
  type MemoryTransaction,
  type Store,
  storeOf,
  storeOfTransaction,
} from "./store.ts";

/** A guard over stores made by `memoryStore`: for tests, and for state that one process keeps for itself. */
export interface MemoryGuard extends SyncGuard<MemoryStore, MemoryTransaction> {
  run<T, V>(
    db: MemoryStore<V>,
    resources: Resources,
    credential: Credential,
    fn: (tx: MemoryTransaction<V>) => T,
  ): Promise<Awaited<T>>;
  claim<V>(db: MemoryStore<V>, resources: Resources, credential: Credential): Promise<void>;
  verify<V>(tx: MemoryTransaction<V>, resources: Resources, credential: Credential): void;
  adopt<V>(db: MemoryStore<V>, resource: string, adoption: Adoption): Promise<void>;
  purge<V>(db: MemoryStore<V>, before: Date): Promise<number>;
}

/**
 * Makes a guard over stores in this process.
 * @throws InvalidArgumentError for a key that could not protect anything
 */
export function memoryGuard(options: GuardOptions = {}): MemoryGuard {
  const keys = guardKeys(options);
  const read = (credential: Credential): Presentation =>
    presentationOf(credential, keys, systemMac);
  return {
    async run<T, V>(
      db: MemoryStore<V>,
      resources: Resources,
      credential: Credential,
      fn: (tx: MemoryTransaction<V>) => T,
    ): Promise<Awaited<T>> {
      const [store, list, mine] = [storeOf(db), resourceList(resources), read(credential)];
      checkSyncBody(fn);
      return await store.transaction((tx) => {
        claimAll(store, list, mine);
        return fn(tx);
      });
    },
    async claim(db, resources, credential) {
      const [store, list, mine] = [storeOf(db), resourceList(resources), read(credential)];
      store.transaction(() => {
        claimAll(store, list, mine);
      });
    },
    verify(tx, resources, credential) {
      const [store, list, mine] = [
        storeOfTransaction(tx),
        resourceList(resources),
        read(credential),
      ];
      mine.checkDeadline();
      for (const resource of list) decideVerify(resource, store.entries.get(resource), mine);
      for (const resource of list) store.entries.set(resource, entryOf(mine));
    },
    async adopt(db, resource, adoption) {
      checkName(resource, "resource");
      checkAdoption(adoption);
      const store = storeOf(db);
      store.transaction(() => {
        adopt(store, resource, adoption);
      });
    },
    async purge(db, before) {
      const [store, time] = [storeOf(db), purgeTime(before)];
      return store.transaction(() => purge(store, time));
    },
  };
}

function entryOf({ token, grantId, scope }: Omit<MemoryEntry, "usedAtMs">): MemoryEntry {
  return { token, grantId, scope, usedAtMs: systemClock.wall() };
}

function claimAll<V>(store: Store<V>, list: readonly string[], mine: Presentation): void {
  mine.checkDeadline();
  const floor = store.floors.get(mine.scope) ?? 0n;
  for (const resource of list)
    decideClaim(resource, { entry: store.entries.get(resource), floor }, mine);
  for (const resource of list) store.entries.set(resource, entryOf(mine));
}

function raiseFloor<V>(store: Store<V>, scope: string, token: bigint): void {
  if (token > (store.floors.get(scope) ?? 0n)) store.floors.set(scope, token);
}

function adopt<V>(store: Store<V>, resource: string, adoption: Adoption): void {
  const standing = {
    entry: store.entries.get(resource),
    floor: store.floors.get(adoption.to) ?? 0n,
  };
  const move = decideAdoption(resource, standing, adoption);
  if (move === null) return;
  raiseFloor(store, adoption.from, move.leftFloor);
  store.entries.set(resource, entryOf(move.entry));
}

function purge<V>(store: Store<V>, beforeMs: number): number {
  const old = store.entries.list().filter(([, entry]) => entry.usedAtMs < beforeMs);
  for (const [resource, { scope, token }] of old) {
    raiseFloor(store, scope, token);
    store.entries.delete(resource);
  }
  return old.length;
}
