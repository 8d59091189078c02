/** What several servers' words come to. */
import type { Busy, LockRecord, Release } from "../../core/driver.ts";
import { tooFew } from "./errors.ts";
import { type EndReply, type InTheWay, type Seen, worstReason } from "./replies.ts";

/**
 * What a release or a revoke came to, as soon as it is decided: it ended the lease when that may have had a quorum until
 * then. Fewer than a quorum had nothing to end.
 */
export function endOf(
  replies: readonly (EndReply | undefined)[],
  quorum: number,
  label: (server: number) => string,
): Release | undefined {
  const count = (kind: EndReply["kind"]): number =>
    replies.filter((reply) => reply?.kind === kind).length;
  const [ended, gone, silent] = [count("ended"), count("gone"), count("silent")];
  const servers = replies.length;
  if (ended >= quorum) return { kind: "released" };
  const reasons = replies.flatMap((reply) => (reply?.kind === "gone" ? [reply.reason] : []));
  if (gone > servers - quorum) return { kind: "gone", reason: worstReason(reasons) };
  if (ended + gone + silent < servers) return undefined;
  if (silent <= servers - quorum) return { kind: "released" };
  const causes = replies.flatMap((reply, server) =>
    reply?.kind === "silent" ? [{ label: label(server), error: reply.error }] : [],
  );
  return {
    kind: "failed",
    error: tooFew({ got: ended + gone, needed: quorum, servers }, causes, "unknown"),
  };
}

/** What is in the way when a round was refused. `chance`: uniform in [0, 1). */
export function busyOf(
  obstacles: readonly InTheWay[],
  votes: { readonly taken: number; readonly silent: number; readonly quorum: number },
  retry: { readonly delayMs: number; readonly chance: number },
): Busy {
  const byHolder = new Map<string | null, number>();
  for (const { holder } of obstacles) byHolder.set(holder, (byHolder.get(holder) ?? 0) + 1);
  const [[holder, most] = [null, 0]] = [...byHolder].sort(([, a], [, b]) => b - a);
  // A few servers each: nobody has the lock, and those who try again together split the votes again.
  const split = most + votes.silent < votes.quorum;
  const waits = obstacles.map(({ waitMs }) => waitMs).sort((a, b) => a - b);
  const missing = Math.max(1, votes.quorum - votes.taken);
  const freeInMs = waits[Math.min(missing, waits.length) - 1] ?? retry.delayMs;
  const leased = obstacles.some(({ blockedBy }) => blockedBy === "lease");
  return {
    kind: "busy",
    queued: false,
    blockedBy: leased ? "lease" : "lock-delay",
    holder,
    askAgainMs: Math.max(
      1,
      split ? Math.min(freeInMs, retry.delayMs * (0.5 + retry.chance)) : freeInMs,
    ),
    keepEntryMs: Number.POSITIVE_INFINITY,
  };
}

/** One name as a quorum of servers sees it. `silent`: servers that did not answer. */
export function recordOf(
  name: string,
  seen: readonly (Seen | { readonly quietMs: number })[],
  quorum: number,
  silent: number,
  fenced: boolean,
): LockRecord {
  const byGrant = new Map<string, Seen[]>();
  for (const each of seen)
    if ("grantId" in each) {
      const same = byGrant.get(each.grantId);
      if (same === undefined) byGrant.set(each.grantId, [each]);
      else same.push(each);
    }
  const holders = [...byGrant.values()]
    .filter((copies) => copies.length + silent >= quorum)
    .map((copies) => holderOf(copies, quorum, fenced));
  const free = seen.filter((each) => "quietMs" in each && each.quietMs === 0).length;
  const quiet = seen
    .flatMap((each) => ("quietMs" in each && each.quietMs > 0 ? [each.quietMs] : []))
    .sort((a, b) => a - b);
  const missing = quorum - free;
  return {
    name,
    mode: holders.length > 0 ? "exclusive" : null,
    permits: 1,
    holders,
    waiters: [],
    lockDelayMs: holders.length > 0 || missing < 1 ? 0 : (quiet[missing - 1] ?? 0),
  };
}

function holderOf(
  copies: readonly Seen[],
  quorum: number,
  fenced: boolean,
): LockRecord["holders"][number] {
  const best = copies.reduce((a, b) => ((b.token ?? 0n) > (a.token ?? 0n) ? b : a));
  // It ends when fewer than a quorum have it.
  const remaining = copies.map(({ remainingMs }) => remainingMs).sort((a, b) => b - a);
  return {
    grantId: best.grantId,
    holder: best.holder,
    token: fenced ? best.token : null,
    lastToken: fenced ? best.lastToken : null,
    remainingMs: remaining[Math.min(quorum, remaining.length) - 1] ?? 0,
    sinceMs: best.sinceMs,
  };
}
