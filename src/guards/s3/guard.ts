/*
 * A guard over objects in S3 or a store like it.
 *
 * State: the manifest of a store (generations.ts) has the guard's entries, (token, grant id, scope) per resource, and
 * names the contents that belong to it. Atomic step: a claim, or a verify with its writes, is decided on the manifest as
 * it was read and takes effect only by replacing that one; when anything else replaced it first, it is decided again. A
 * verify writes the manifest too, so that no claim can come between it and the end of its transaction. Why pairs never
 * come back: see `decideClaim`. What breaks it: see generations.ts.
 */
import type { GuardOptions } from "../../core/guard.ts";
import { type FilesGuard, filesGuard } from "../../core/guard-files.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { change, type S3Store, transactionOf } from "./store.ts";

/** A guard over stores made by `s3Store`. */
export type S3Guard = FilesGuard<S3Store>;

/**
 * Makes a guard over an object store.
 * @throws InvalidArgumentError for a key that could not protect anything
 */
export function s3Guard(options: GuardOptions = {}): S3Guard {
  return filesGuard(options, { mac: systemMac, clock: systemClock, change, transactionOf });
}
