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
import type { GuardOptions } from "../../core/guard.ts";
import { type FilesGuard, filesGuard } from "../../core/guard-files.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { change, type FileStore, transactionOf } from "./store.ts";

/** A guard over stores made by `fileStore`. */
export type FileGuard = FilesGuard<FileStore>;

/**
 * Makes a guard over files.
 * @throws InvalidArgumentError for a key that could not protect anything
 */
export function fileGuard(options: GuardOptions = {}): FileGuard {
  return filesGuard(options, { mac: systemMac, clock: systemClock, change, transactionOf });
}
