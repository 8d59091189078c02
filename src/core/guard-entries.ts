import type { Adoption, Claim, Presentation } from "./guard.ts";
import { decideAdoption, decideClaim, decideVerify } from "./guard-decision.ts";

/** A guard entry with the time of its last use. */
export interface UsedClaim extends Claim {
  /** Unix milliseconds of the last claim or verify. */
  readonly usedAtMs: number;
}

/** The entries and floors of one resource store, inside a transaction that takes effect whole or not at all. */
export interface EntryBook {
  entry(resource: string): UsedClaim | null;
  entries(): ReadonlyMap<string, UsedClaim>;
  setEntry(resource: string, entry: UsedClaim | null): void;
  floor(scope: string): bigint;
  /** Never lowers it. */
  raiseFloor(scope: string, token: bigint): void;
}

/**
 * Claims the whole list, or nothing.
 * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError
 */
export function claimAll(
  book: EntryBook,
  list: readonly string[],
  mine: Presentation,
  nowMs: number,
): void {
  mine.checkDeadline();
  const floor = book.floor(mine.scope);
  for (const resource of list) decideClaim(resource, { entry: book.entry(resource), floor }, mine);
  for (const resource of list) book.setEntry(resource, used(mine, nowMs));
}

/**
 * Verifies the whole list, and marks it as used, so that no claim can come between this and the end of the transaction.
 * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError
 */
export function verifyAll(
  book: EntryBook,
  list: readonly string[],
  mine: Presentation,
  nowMs: number,
): void {
  mine.checkDeadline();
  for (const resource of list) decideVerify(resource, book.entry(resource), mine);
  for (const resource of list) book.setEntry(resource, used(mine, nowMs));
}

/** Moves one resource. @throws GuardScopeError */
export function adoptOne(
  book: EntryBook,
  resource: string,
  adoption: Adoption,
  nowMs: number,
): void {
  const standing = { entry: book.entry(resource), floor: book.floor(adoption.to) };
  const move = decideAdoption(resource, standing, adoption);
  if (move === null) return;
  book.raiseFloor(adoption.from, move.leftFloor);
  book.setEntry(resource, used(move.entry, nowMs));
}

/** Deletes what was last used before, with a floor in its place; returns how many. */
export function purgeBefore(book: EntryBook, beforeMs: number): number {
  const old = [...book.entries()].filter(([, entry]) => entry.usedAtMs < beforeMs);
  for (const [resource, { scope, token }] of old) {
    book.raiseFloor(scope, token);
    book.setEntry(resource, null);
  }
  return old.length;
}

function used({ token, grantId, scope }: Claim, usedAtMs: number): UsedClaim {
  return { token, grantId, scope, usedAtMs };
}
