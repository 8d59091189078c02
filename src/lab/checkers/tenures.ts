import type { Ev } from "../history.ts";
import type { LockOp } from "./models.ts";

/** What is known of one grant: when each of its calls can have taken effect. */
export interface KnownTenure {
  readonly owner: string;
  readonly acquire: Span;
  token: bigint | undefined;
  readonly renewals: Span[];
  release: Span | undefined;
  /** The server cannot have let it lapse before. -Infinity: nothing is known about its ttl. */
  expiresFrom: number;
}

/** A call. `must` is false while its outcome is unknown. */
export interface Span {
  call: number;
  ret: number;
  must: boolean;
  event: Ev;
}

/** The operations of some grants, an expiry for each that was not seen to be released. */
export function opsOf(tenures: Iterable<KnownTenure>): readonly LockOp[] {
  const ops: LockOp[] = [];
  for (const { owner, acquire, token, renewals, release, expiresFrom } of tenures) {
    ops.push({ f: "acquire", owner, token, ...acquire });
    for (const renewal of renewals) ops.push({ f: "renew", owner, token, ...renewal });
    if (release !== undefined) ops.push({ f: "release", owner, token, ...release });
    if (release?.must === true) continue;
    const last = renewals.at(-1)?.event ?? acquire.event;
    const expiry = { call: expiresFrom, ret: Infinity, must: false, event: last };
    ops.push({ f: "expire", owner, token, ...expiry });
  }
  return ops;
}

/** What is wrong with grants in the order of their tokens. */
export interface Misplaced {
  readonly tenure: KnownTenure;
  /** The one before, where that is in the way. */
  readonly previous: KnownTenure | undefined;
  readonly kind: "granted too early" | "released too late" | "renewed when over";
  /** The earliest time at which it could have taken effect. */
  readonly earliest: number;
}

/**
 * Places grants with unique tokens: their order is known, so each takes effect as early as it can, and no search is
 * needed. Returns the first that cannot be placed, or the time of the last end.
 */
export function placeInOrder(
  sorted: readonly KnownTenure[],
  from: number,
): { readonly misplaced: Misplaced } | { readonly end: number } {
  let point = from;
  let previous: KnownTenure | undefined;
  for (const tenure of sorted) {
    const { acquire, renewals, release, expiresFrom } = tenure;
    point = Math.max(point, acquire.call);
    if (point > acquire.ret)
      return { misplaced: { tenure, previous, kind: "granted too early", earliest: point } };
    let end = point;
    for (const renewal of renewals) {
      if (renewal.must && renewal.ret < point)
        return { misplaced: { tenure, previous, kind: "renewed when over", earliest: point } };
      if (renewal.must) end = Math.max(end, renewal.call);
    }
    if (release?.must === true) {
      end = Math.max(end, release.call);
      if (end > release.ret)
        return { misplaced: { tenure, previous, kind: "released too late", earliest: end } };
    } else end = Math.max(end, Math.min(expiresFrom, release?.call ?? Infinity));
    point = end;
    previous = tenure;
  }
  return { end: point };
}
