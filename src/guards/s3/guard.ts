/*
 * A guard over objects in S3 or a store like it.
 *
 * State: the manifest of a store (generations.ts) has the guard's entries, (token, grant id, scope) per resource, and
 * names the contents that belong to it. Atomic step: a claim, or a verify with its writes, is decided on the manifest as
 * it was read and takes effect only by replacing that one; when anything else replaced it first, it is decided again. A
 * verify writes the manifest too, so that no claim can come between it and the end of its transaction. Why pairs never
 * come back: see `decideClaim`. What breaks it: see generations.ts.
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
import { change, type S3Store, type S3Transaction, transactionOf } from "./store.ts";

/** A guard over stores made by `s3Store`. */
export interface S3Guard extends Guard<S3Store, S3Transaction> {
  /**
   * Replaces one file by what `fn` makes of its content (`null`: no such file), under a claim of the resource with the
   * file's name. `fn` may run more than once. Resolves to the new content.
   * @throws as `run`
   */
  update<T extends string | Uint8Array>(
    store: S3Store,
    name: string,
    credential: Credential,
    fn: (current: string | null) => T | Promise<T>,
  ): Promise<T>;
}

/**
 * Makes a guard over an object store.
 * @throws InvalidArgumentError for a key that could not protect anything
 */
export function s3Guard(options: GuardOptions = {}): S3Guard {
  const keys = guardKeys(options);
  const read = (credential: Credential): Presentation =>
    presentationOf(credential, keys, systemMac);
  const run: S3Guard["run"] = async (store, resources, credential, fn) => {
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
        const made = await fn(await tx.readText(name));
        tx.write(name, made);
        return made;
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
