import type { Ev } from "../history.ts";

/** What a lock server is supposed to be. */
export type LockModel =
  | {
      readonly kind: "mutex";
      /** Each grant's token exceeds all before. */
      readonly fenced?: boolean;
      /** One client may hold it so many times over, under one token. Default 1. */
      readonly reentrant?: number;
    }
  | { readonly kind: "permits"; readonly permits: number };

/** A call, or the server's own expiry, with the time in which it must have taken effect. */
export interface LockOp {
  readonly f: "acquire" | "renew" | "release" | "expire";
  /** The grant, or for a reentrant lock the client. */
  readonly owner: string;
  readonly token: bigint | undefined;
  readonly call: number;
  /** Infinity: it may take effect at any later time. */
  readonly ret: number;
  /** Its outcome is known: it must take effect. Others may. */
  readonly must: boolean;
  /** The event that says so. */
  readonly event: Ev;
}

/** A state of a lock. Never changed: each step makes a new one. */
export interface LockState {
  /** Who holds it; for permits in order, once for each permit; for a reentrant lock once for each entry. */
  readonly holders: readonly string[];
  /** The largest token so far. */
  readonly token: bigint;
}

/** A lock that nobody has ever held. */
export const FREE: LockState = { holders: [], token: 0n };

/** The state after an operation, or `null` where the model forbids it. */
export function stepLock(model: LockModel, state: LockState, op: LockOp): LockState | null {
  const { holders } = state;
  switch (op.f) {
    case "acquire":
      return acquire(model, state, op);
    case "renew":
      return holders.includes(op.owner) ? state : null;
    case "release":
      return holders.includes(op.owner) ? { ...state, holders: without(holders, op.owner) } : null;
    case "expire":
      return holders.includes(op.owner)
        ? { ...state, holders: holders.filter((holder) => holder !== op.owner) }
        : null;
  }
}

/** Equal keys mean equal states. */
export function keyOf(state: LockState): string {
  return `${state.token.toString()} ${JSON.stringify(state.holders)}`;
}

function acquire(model: LockModel, state: LockState, op: LockOp): LockState | null {
  const { holders, token } = state;
  if (model.kind === "permits") {
    if (holders.length >= model.permits) return null;
    return { holders: [...holders, op.owner].sort(), token };
  }
  if (holders.length > 0) {
    const again = holders[0] === op.owner && holders.length < (model.reentrant ?? 1);
    if (!again) return null;
    // A re-entry keeps the token.
    if (model.fenced === true && op.token !== undefined && op.token !== token) return null;
    return { holders: [...holders, op.owner], token };
  }
  if (model.fenced === true && op.token !== undefined && op.token <= token) return null;
  return { holders: [op.owner], token: op.token ?? token };
}

function without(holders: readonly string[], owner: string): readonly string[] {
  const index = holders.indexOf(owner);
  return holders.filter((_, n) => n !== index);
}
