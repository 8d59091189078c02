/** What the scripts return, read. */
import type { Busy, DriverError, GoneReason } from "../../core/driver.ts";
import type { Outcome } from "../redis/client.ts";
import { asRedisError } from "../redis/errors.ts";
import { reasonOf } from "../redis/replies.ts";
import type { Hold } from "./rounds.ts";

type Cell = string | number;

/** Somebody or something in the way of a take. */
export interface InTheWay {
  readonly blockedBy: Busy["blockedBy"];
  readonly holder: string | null;
  readonly waitMs: number;
}

/** What one server says to a take. */
export type TakeReply =
  | {
      readonly kind: "took";
      readonly hold: Hold;
      /** The last token of the grant before, and whether that was never released. */
      readonly before: bigint | null;
      readonly over: boolean;
    }
  | { readonly kind: "busy"; readonly obstacle: InTheWay }
  /** The grant id was given back or revoked, or this round was undone before its packet arrived. */
  | { readonly kind: "buried" }
  | { readonly kind: "gone"; readonly reason: GoneReason }
  | { readonly kind: "used-up" };

export function takeReply(reply: unknown): TakeReply {
  const [kind = 0, a = "", b = "", c = "", d = 0] = reply as readonly Cell[];
  switch (Number(kind)) {
    case 1:
      return { kind: "took", hold: holdOf(a, b), before: tokenOf(c), over: d === 1 };
    case 2:
      return { kind: "buried" };
    case 3:
      return { kind: "gone", reason: reasonOf(a) };
    case 4:
      return { kind: "used-up" };
    default: {
      const blockedBy = a === "lock-delay" ? "lock-delay" : "lease";
      const holder = b === "" ? null : String(b);
      return { kind: "busy", obstacle: { blockedBy, holder, waitMs: Number(c) } };
    }
  }
}

/** What one server says to an extension, or to being set again. */
export type ExtendReply =
  | { readonly kind: "kept"; readonly hold: Hold }
  | { readonly kind: "gone"; readonly reason: GoneReason; readonly free: boolean };

export function extendReply(reply: unknown): ExtendReply {
  const [kind, a = "", b = ""] = reply as readonly Cell[];
  return kind === 1
    ? { kind: "kept", hold: holdOf(a, b) }
    : { kind: "gone", reason: reasonOf(a), free: b === 1 };
}

/** What one server says to a release or a revoke. */
export type EndReply =
  | { readonly kind: "ended" }
  | { readonly kind: "gone"; readonly reason: GoneReason }
  | { readonly kind: "silent"; readonly error: DriverError };

export function endReply(outcome: Outcome): EndReply {
  if (!outcome.ok) return { kind: "silent", error: asRedisError(outcome.error) };
  const [done, code] = outcome.value as readonly [number, number?];
  return done === 1 ? { kind: "ended" } : { kind: "gone", reason: reasonOf(code) };
}

/** Who has a name on one server. */
export interface Seen {
  readonly grantId: string;
  readonly holder: string;
  readonly token: bigint | null;
  readonly lastToken: bigint | null;
  readonly remainingMs: number;
  readonly sinceMs: number;
  readonly lockDelayMs: number;
}

/** One server's record: a holder, or for how long it is quiet, 0 when it is free. */
export function inspectReply(reply: unknown): Seen | { readonly quietMs: number } {
  const [kind, a = "", b = "", c = "", d = "", e = 0, f = 0, g = 0] = reply as readonly Cell[];
  if (kind !== 1) return { quietMs: kind === 2 ? Number(a) : 0 };
  return {
    grantId: String(a),
    holder: String(b),
    token: tokenOf(c),
    lastToken: tokenOf(d),
    remainingMs: Number(e),
    sinceMs: Number(f),
    lockDelayMs: Number(g),
  };
}

/** The least surprising reason that several servers agree on: revoked, taken, or simply expired. */
export function worstReason(reasons: readonly GoneReason[]): GoneReason {
  if (reasons.includes("revoked")) return "revoked";
  return reasons.includes("taken") ? "taken" : "expired";
}

function holdOf(value: Cell, counter: Cell): Hold {
  return { value: String(value), counter: BigInt(counter) };
}

function tokenOf(text: Cell): bigint | null {
  return text === "" ? null : BigInt(text);
}
