/** What the scripts return, read. */
import type { Mode } from "../../core/capabilities.ts";
import {
  type Answer,
  DriverError,
  type GoneReason,
  type Granted,
  type LockRecord,
} from "../../core/driver.ts";

/** Modes as the scripts spell them. */
export const LETTERS: Readonly<Record<Mode, string>> = {
  exclusive: "e",
  shared: "s",
  permits: "p",
};

const MODES: Readonly<Record<string, Mode>> = { e: "exclusive", s: "shared", p: "permits" };
const REASONS: readonly GoneReason[] = ["expired", "taken", "revoked"];

/** One part of a reply. */
export type Cell = string | number;

function tokenOf(text: unknown): bigint | null {
  return text === "" || text === undefined || text === null ? null : BigInt(text as string);
}

/** Why nothing is there. */
export function reasonOf(code: unknown): GoneReason {
  return REASONS[Number(code)] ?? "expired";
}

function usedUp(): DriverError {
  return new DriverError("config", "not-applied", "The fencing tokens of this name are used up.");
}

/** `{1, first, how many, took over, token before, ttl}`; `fenced` false hides the tokens. */
function grantedOf(reply: readonly Cell[], fenced: boolean): Granted {
  const [, first, count, over, before, ttlMs] = reply;
  const token = fenced ? tokenOf(first) : null;
  return {
    kind: "granted",
    tokens: token === null ? null : { first: token, count: Number(count) },
    takenOver: over === 1,
    previousToken: fenced ? tokenOf(before) : null,
    ttlMs: Number(ttlMs),
  };
}

/** One grant of `quick`: the token of all of its grants, and the token before; `undefined` when it was not granted. */
export function quicklyGranted(
  token: Cell | undefined,
  before: Cell | undefined,
  ttlMs: number,
  fenced: boolean,
): Granted | undefined {
  // A number says no; the token before is text.
  if (typeof before !== "string") return undefined;
  return {
    kind: "granted",
    tokens: fenced ? { first: BigInt(token ?? 0), count: 1 } : null,
    takenOver: false,
    previousToken: fenced && before !== "" ? BigInt(before) : null,
    ttlMs,
  };
}

/** What `take` returned; `undefined` when it was not granted. */
export function takenOf(reply: unknown, ttlMs: number, fenced: boolean): Granted | undefined {
  if (typeof reply !== "string") return undefined;
  const bar = reply.indexOf("|");
  return quicklyGranted(reply.slice(0, bar), reply.slice(bar + 1), ttlMs, fenced);
}

/** `attempt` found that nothing is in the way of the next quick step. */
export function isAlone(reply: unknown): boolean {
  const cells = reply as readonly Cell[];
  return cells[0] === 1 && cells[6] === 1;
}

/** The answer of `attempt`. @throws DriverError when no token is left */
export function answerOf(reply: unknown, fenced: boolean): Answer {
  const cells = reply as readonly Cell[];
  switch (Number(cells[0])) {
    case 1:
      return grantedOf(cells, fenced);
    case 2:
      return { kind: "vanished" };
    case 3:
      return { kind: "mismatch", permits: Number(cells[1]) };
    case 4:
      throw usedUp();
    default: {
      const [, queued, by, holder, askAgainMs, keep] = cells;
      return {
        kind: "busy",
        queued: queued === 1,
        blockedBy: by as "lease" | "queue" | "lock-delay",
        holder: holder === "" ? null : String(holder),
        askAgainMs: Number(askAgainMs),
        keepEntryMs: keep === -1 ? Number.POSITIVE_INFINITY : Number(keep),
      };
    }
  }
}

/** The answer of `exchange`. @throws DriverError when no token is left */
export function exchangedOf(
  reply: unknown,
  fenced: boolean,
): Granted | { readonly kind: "gone"; readonly reason: GoneReason } {
  const cells = reply as readonly Cell[];
  if (cells[0] === 1) return grantedOf(cells, fenced);
  if (cells[0] === 4) throw usedUp();
  return { kind: "gone", reason: reasonOf(cells[1]) };
}

/** The record that `inspect` returns. */
export function recordOf(name: string, reply: unknown, fenced: boolean): LockRecord {
  const [mode, permits, quiet, holders, waiters] = reply as readonly [
    string,
    number,
    number,
    readonly (readonly Cell[])[],
    readonly (readonly [string, string])[],
  ];
  return {
    name,
    mode: MODES[mode] ?? null,
    permits,
    holders: holders.map(([grantId, holder, first, last, remaining, since]) => ({
      grantId: String(grantId),
      holder: String(holder),
      token: fenced ? tokenOf(first) : null,
      lastToken: fenced ? tokenOf(last) : null,
      remainingMs: Number(remaining),
      sinceMs: Number(since),
    })),
    waiters: waiters.map(([grantId, holder]) => ({ grantId, holder })),
    lockDelayMs: quiet,
  };
}
