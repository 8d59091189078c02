import { GuardScopeError, InvalidArgumentError, StaleTokenError } from "./errors.ts";
import { MAX_TOKEN } from "./fencing-token.ts";
import type { Adoption, Claim } from "./guard.ts";
import { isId } from "./sequencer.ts";

/**
 * What stands at a resource: its entry, and the floor that a purge or an adoption left for the presented scope (0: none).
 * Only a missing entry inherits the floor; an entry speaks for itself.
 */
export interface Standing {
  readonly entry: Claim | null;
  readonly floor: bigint;
}

/**
 * Decides a claim: passes when the token rises above what is stored, or is the same grant's again.
 *
 * Why equality needs the grant id: a backend that lost its memory hands the same number out twice. And since the stored
 * pair changes only when its token rises, a pair that was left never comes back: between a grant's claim and its
 * accepted write no other grant's write was accepted, whatever the lock service does.
 * @throws StaleTokenError, GuardScopeError
 */
export function decideClaim(resource: string, standing: Standing, claim: Claim): void {
  const { entry, floor } = standing;
  if (entry !== null && entry.scope !== claim.scope)
    throw new GuardScopeError(resource, entry.scope, claim.scope);
  const highest = entry === null ? floor : entry.token;
  if (claim.token > highest) return;
  if (entry !== null && claim.token === entry.token && claim.grantId === entry.grantId) return;
  throw new StaleTokenError({ resource, presented: claim.token, highest, step: "claim" });
}

/**
 * Decides a verify: passes only while the stored pair is the presented one. A larger token does not pass: its holder
 * has not claimed, so what it read may be stale.
 * @throws StaleTokenError, GuardScopeError
 */
export function decideVerify(resource: string, entry: Claim | null, claim: Claim): void {
  if (entry !== null && entry.scope !== claim.scope)
    throw new GuardScopeError(resource, entry.scope, claim.scope);
  if (entry !== null && entry.token === claim.token && entry.grantId === claim.grantId) return;
  throw new StaleTokenError({
    resource,
    presented: claim.token,
    highest: entry?.token ?? null,
    step: "verify",
  });
}

/** What an adoption changes: the new entry, and the floor that the left scope must keep. `null`: nothing is to do. */
export interface Move {
  readonly entry: Claim;
  /** For `from`: the token that its last holder had. 0 when there was none. */
  readonly leftFloor: bigint;
}

/**
 * Decides an adoption. The new entry has an empty grant id, which nobody can present: every holder of `to` has to
 * claim, with a token above the floor.
 * @throws GuardScopeError when the entry belongs to a third scope
 */
export function decideAdoption(
  resource: string,
  standing: Standing,
  { from, to, floor }: Adoption,
): Move | null {
  const { entry } = standing;
  const least = floor > standing.floor ? floor : standing.floor;
  const adopted = { token: least, grantId: "", scope: to };
  if (entry === null) return { entry: adopted, leftFloor: 0n };
  if (entry.scope === to) return entry.token >= floor ? null : { entry: adopted, leftFloor: 0n };
  if (entry.scope !== from) throw new GuardScopeError(resource, entry.scope, from);
  return { entry: adopted, leftFloor: entry.token };
}

/** @throws InvalidArgumentError for scopes that cannot be, or a floor that would leave no token */
export function checkAdoption({ from, to, floor }: Adoption): void {
  if (!isId(from) || !isId(to) || from === to)
    throw new InvalidArgumentError(
      "Expected `from` and `to` to be the scopes of two locks (`lease.scope`), 27 characters each.",
    );
  if (typeof floor !== "bigint" || floor < 0n || floor >= MAX_TOKEN)
    throw new InvalidArgumentError("Expected `floor` to be a bigint from 0 to below 2^62 - 1.");
}

/** The time of a purge as Unix milliseconds. @throws InvalidArgumentError for anything but a valid `Date` */
export function purgeTime(before: Date): number {
  const ms = (before as unknown) instanceof Date ? before.getTime() : Number.NaN;
  if (Number.isNaN(ms))
    throw new InvalidArgumentError("Expected the time of a purge to be a valid `Date`.");
  return ms;
}
