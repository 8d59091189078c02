import type { Answer, Ask, Busy, GoneReason, Granted } from "../../core/driver.ts";
import type { Connection } from "./connection.ts";
import { sqlState } from "./errors.ts";
import { granted, type LockStep, ms, OFFER_MS } from "./lock-step.ts";
import type { Statements } from "./sql-parts.ts";
import { atOnce, inStep } from "./step.ts";

/** Silence that makes a waiter dead: short near the head, where it would hold up the others. */
const KEEP_NEAR_MS = 3000;
const KEEP_FAR_MS = 60_000;
const NEAR = 3;
/** The longest queue of one name. */
const MAX_WAITERS = 10_000;

const VANISHED = { kind: "vanished" } as const;

/** What an ask needs beside itself. */
export interface Asking {
  readonly connection: Connection;
  readonly sql: Statements;
  readonly key: string;
  readonly dueAt: number;
  /** Where this process is woken; "" where it cannot be. */
  readonly channel: string;
  /** It was just told that it has an offer. */
  readonly woken: boolean;
}

/** Any ask: as one statement where nobody contends or nothing has changed, else as a step. */
export async function attempt(at: Asking, ask: Ask): Promise<Answer & { readonly ahead?: number }> {
  if (ask.join === "kept") {
    const waits = at.woken ? null : await refresh(at, ask);
    if (waits !== null) return waits;
    const grant = await takeOffer(at, ask);
    if (grant !== null) return grant;
  } else if (ask.mode === "exclusive" && ask.tokens === 1 && ask.above === undefined) {
    const grant = await grantIdle(at, ask);
    if (grant !== null) return grant;
  }
  const { connection, sql, key, dueAt, channel } = at;
  const about = { key, grantId: ask.grantId, make: true };
  const { decided, lock, written } = await inStep(connection, sql, about, dueAt, (step) =>
    decide(step, ask, channel),
  );
  return decided === "granted" ? lock.granted(written) : decided;
}

/** `null` unless the name is new or idle. */
async function grantIdle(at: Asking, ask: Ask): Promise<Granted | null> {
  const { connection, sql, key, dueAt } = at;
  const args = [key, ask.grantId, ask.holder, ms(ask.ttlMs), ms(ask.lockDelayMs)];
  try {
    const [row] = await connection.run({ statement: sql.grantIdle, args }, dueAt);
    if (row === undefined) return null;
    const [first = "", previous = "", abandoned] = row.split("|");
    const before = previous === "" ? null : BigInt(previous);
    return granted(ask, { first: BigInt(first), count: 1 }, abandoned === "t", before);
  } catch (error) {
    // A pooler's session may have another isolation level by default; a step sets its own.
    if (sqlState(error) === "40001") return null;
    throw error;
  }
}

/** `null` unless the free lock is offered to this waiter, and there is nothing else to it. */
async function takeOffer(at: Asking, ask: Ask): Promise<Granted | null> {
  if (ask.mode !== "exclusive" || ask.above !== undefined) return null;
  const { connection, sql, key, dueAt } = at;
  const { grantId, holder, ttlMs, lockDelayMs, tokens } = ask;
  const args = [key, grantId, holder, ms(ttlMs), ms(lockDelayMs), String(tokens)];
  const call = { statement: sql.takeOffer, args };
  const row = await atOnce(connection, sql, call, "granted", dueAt);
  if (row === undefined) return null;
  const [, first = "", previous = "", abandoned] = row.split("|");
  const before = previous === "" ? null : BigInt(previous);
  return granted(ask, { first: BigInt(first), count: tokens }, abandoned === "t", before);
}

/** The ask of a waiter while an exclusive lease runs; `null` when there is more to it. */
async function refresh(at: Asking, ask: Ask): Promise<(Busy & { readonly ahead: number }) | null> {
  const { connection, sql, key, dueAt } = at;
  const args = [key, ask.grantId, String(KEEP_NEAR_MS), String(KEEP_FAR_MS)];
  const [row] = await connection
    .run({ statement: sql.refresh, args }, dueAt)
    .catch((error: unknown) => {
      if (sqlState(error) === "40001") return [];
      throw error as Error;
    });
  if (row === undefined) return null;
  const [rest = "", delay = "", before = "", keep = "", ...holder] = row.split("|");
  const ahead = Number(before);
  return {
    kind: "busy",
    queued: true,
    blockedBy: "lease",
    holder: holder.join("|"),
    askAgainMs: Math.max(1, Number(rest) + Number(delay) + ahead * Math.min(ask.ttlMs, OFFER_MS)),
    keepEntryMs: Number(keep),
    ahead,
  };
}

type Decided = Exclude<Answer, Granted> | "granted";

function decide(
  lock: LockStep,
  ask: Ask,
  channel: string,
): Decided | Granted | (Busy & { readonly ahead: number }) {
  if (lock.refused) return VANISHED;
  const outcome = lock.restart(ask) ?? place(lock, ask, channel);
  lock.makeOffers(ask.grantId);
  if (outcome !== "waits") return outcome;
  const keepMs = lock.ahead < NEAR ? KEEP_NEAR_MS : KEEP_FAR_MS;
  const keepEntryMs = lock.queued ? keepMs : Number.POSITIVE_INFINITY;
  const { queued, ahead } = lock;
  return { kind: "busy", queued, ...lock.obstacle(ask), keepEntryMs, ahead };
}

function place(
  lock: LockStep,
  ask: Ask,
  channel: string,
): Exclude<Answer, Granted | Busy> | "granted" | "waits" {
  if (ask.join === "kept" && !lock.queued) return VANISHED;
  if (ask.mode === "permits") {
    const stored = lock.disagrees(ask.permits);
    if (stored !== null) {
      lock.leave();
      return { kind: "mismatch", permits: stored };
    }
  }
  if (lock.hasRoom(ask.mode)) {
    lock.grant(ask);
    return "granted";
  }
  const keepMs = lock.ahead < NEAR ? KEEP_NEAR_MS : KEEP_FAR_MS;
  if (ask.join === "no") lock.leave();
  else if (lock.queued) lock.heard(keepMs);
  else {
    if (lock.entries >= MAX_WAITERS) lock.forgetDead();
    else lock.join(ask, channel, keepMs);
  }
  return "waits";
}

/** Gives the lease of `from` to the ask. */
export async function exchange(
  at: Asking,
  from: string,
  ask: Ask,
): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }> {
  const { connection, sql, key, dueAt } = at;
  const own = { key, grantId: ask.grantId, make: true };
  const again = await inStep(connection, sql, own, dueAt, (lock) => lock.restart(ask));
  if (again.decided !== undefined) return again.decided;
  // Between the two steps only a repeat of this very exchange can make the grant, and then `from` is gone here.
  const about = { key, grantId: from, make: true };
  const { decided, lock, written } = await inStep(connection, sql, about, dueAt, (step) => {
    const exchanged = step.exchange(ask);
    if (exchanged) step.bury(from, "exchanged", Math.max(ask.ttlMs, KEEP_FAR_MS));
    step.makeOffers();
    return exchanged;
  });
  return decided ? lock.granted(written) : { kind: "gone", reason: lock.whyGone };
}
