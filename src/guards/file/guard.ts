/*
 * A guard over files in one directory.
 *
 * State: every generation of the directory (generations.ts) has the guard's entries, (token, grant id, scope) per
 * resource, and names the contents that belong to it. Atomic step: a claim, or a verify with its writes, is decided on
 * generation n and takes effect only as generation n+1; when anything else became n+1, it is decided again. A verify
 * makes a generation too, so that no claim can come between it and the end of its transaction. Why pairs never come
 * back: see `decideClaim`. What breaks it: programs that write these contents by another way, copies of an old state
 * put back, and what breaks the chain of generations.
 */
import { InvalidArgumentError } from "../../core/errors.ts";
import {
  type Credential,
  type Guard,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  resourceList,
} from "../../core/guard.ts";
import { checkAdoption, purgeTime } from "../../core/guard-decision.ts";
import { adoptOne, claimAll, purgeBefore, verifyAll } from "../../core/guard-entries.ts";
import { checkName } from "../../core/lock-name.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { change, type FileStore, type FileTransaction, transactionOf } from "./store.ts";

/** A guard over stores made by `fileStore`. */
export interface FileGuard extends Guard<FileStore, FileTransaction> {
  /**
   * Replaces one file by what `fn` makes of its content (`null`: no such file), under a claim of the resource with the
   * file's name. `fn` may run more than once. Resolves to the new content.
   * @throws as `run`
   */
  update<T extends string | Uint8Array>(
    store: FileStore,
    name: string,
    credential: Credential,
    fn: (current: string | null) => T | Promise<T>,
  ): Promise<T>;
}

/**
 * Makes a guard over files.
 * @throws InvalidArgumentError for a key that could not protect anything
 */
export function fileGuard(options: GuardOptions = {}): FileGuard {
  const keys = guardKeys(options);
  const read = (credential: Credential): Presentation =>
    presentationOf(credential, keys, systemMac);
  const run: FileGuard["run"] = async (store, resources, credential, fn) => {
    const [list, mine] = [resourceList(resources), read(credential)];
    if (typeof fn !== "function")
      throw new InvalidArgumentError("Expected the body of `run` to be a function.");
    return change(store, "run", mine.remainingMs(), async (tx) => {
      claimAll(tx, list, mine, systemClock.wall());
      return fn(tx);
    });
  };
  return {
    run,
    async claim(store, resources, credential) {
      const [list, mine] = [resourceList(resources), read(credential)];
      await change(store, "claim", mine.remainingMs(), async (tx) => {
        claimAll(tx, list, mine, systemClock.wall());
      });
    },
    async verify(transaction, resources, credential) {
      const [list, mine] = [resourceList(resources), read(credential)];
      verifyAll(transactionOf(transaction), list, mine, systemClock.wall());
    },
    async update(store, name, credential, fn) {
      return run(store, name, credential, async (tx) => {
        const next = await fn(await tx.readText(name));
        tx.write(name, next);
        return next;
      });
    },
    async adopt(store, resource, adoption) {
      checkName(resource, "resource");
      checkAdoption(adoption);
      await change(store, "adopt", Infinity, async (tx) => {
        adoptOne(tx, resource, adoption, systemClock.wall());
      });
    },
    async purge(store, before) {
      const time = purgeTime(before);
      return change(store, "purge", Infinity, async (tx) => purgeBefore(tx, time));
    },
  };
}
