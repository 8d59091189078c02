import type { Answer, Ask, GoneReason, Granted } from "../../core/driver.ts";
import { granted, ms, OFFER_MS } from "../sql/lock-step.ts";
import { decide, exchangeFrom, keepOf, type Placed } from "../sql/steps.ts";
import { effectOf, rowsOf } from "./connection.ts";
import { type At, decided, inStep, type Key, put } from "./step.ts";

/** An entry is written again once this part of its time is over: asks are more frequent than that, and each write syncs. */
const STALE = 1 / 4;

/** What an ask needs beside itself. */
export interface Asking extends At {
  readonly key: Key;
  /** Where this process is told. */
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
  const about = { key: at.key, grantId: ask.grantId, make: true };
  const step = await inStep(at, about, (lock) => decide(lock, ask, at.channel));
  return step.decided === "granted" ? step.lock.granted(step.written) : step.decided;
}

/** `null` unless the name is known and idle, and its last lease was given back. */
async function grantIdle(at: Asking, ask: Ask): Promise<Granted | null> {
  const { connection, sql, dueAt, key } = at;
  const terms = [ask.grantId, ask.holder, ms(ask.ttlMs), ms(ask.lockDelayMs)];
  const [result] = await connection.script(put(sql.grantIdle, key.id, ...terms), dueAt);
  const { rows, left } = effectOf(result);
  if (rows !== 1) return null;
  const first = BigInt(left);
  return granted(ask, { first, count: 1 }, false, first > 1n ? first - 1n : null);
}

/** `null` unless the free lock is offered to this waiter, and there is nothing else to it. */
async function takeOffer(at: Asking, ask: Ask): Promise<Granted | null> {
  if (ask.mode !== "exclusive" || ask.above !== undefined) return null;
  const { grantId, holder, ttlMs, lockDelayMs, tokens: count } = ask;
  const terms = [grantId, holder, ms(ttlMs), ms(lockDelayMs), String(count)];
  const rows = await decided(at, at.sql.takeOffer, at.key.id, ...terms);
  const [row] = rows ?? [];
  if (row === undefined) return null;
  const [first, previous, abandoned] = row;
  const before = previous == null ? null : BigInt(previous);
  return granted(ask, { first: BigInt(first ?? 0), count }, abandoned === "1", before);
}

/** The ask of a waiter while an exclusive lease runs; `null` when there is more to it. */
async function refresh(at: Asking, ask: Ask): Promise<Placed | null> {
  const { connection, sql, dueAt, key } = at;
  const [found] = await connection.script(put(sql.refresh, key.id, ask.grantId), dueAt);
  const [row] = rowsOf(found);
  if (row === undefined) return null;
  const [rest, delay, ahead, left, kept] = row.slice(0, 5).map(Number);
  const before = ahead ?? 0;
  const keepMs = keepOf(before);
  if (kept !== keepMs || (left ?? 0) < keepMs * (1 - STALE)) {
    const text = put(sql.heard, key.id, ask.grantId, ms(keepMs));
    const [result] = await connection.script(text, dueAt);
    if (effectOf(result).rows !== 1) return null;
  }
  return {
    kind: "busy",
    queued: true,
    blockedBy: "lease",
    holder: row[5] ?? null,
    askAgainMs: Math.max(1, (rest ?? 0) + (delay ?? 0) + before * Math.min(ask.ttlMs, OFFER_MS)),
    keepEntryMs: keepMs,
    ahead: before,
  };
}

/** Gives the lease of `from` to the ask. */
export async function exchange(
  at: Asking,
  from: string,
  ask: Ask,
): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }> {
  const own = { key: at.key, grantId: ask.grantId, make: true };
  const again = await inStep(at, own, (lock) => lock.restart(ask));
  if (again.decided !== undefined) return again.decided;
  // Between the two steps only a repeat of this very exchange can make the grant, and then `from` is gone here.
  const about = { key: at.key, grantId: from, make: true };
  const step = await inStep(at, about, (lock) => exchangeFrom(lock, from, ask));
  if (!step.decided) return { kind: "gone", reason: step.lock.whyGone };
  return step.lock.granted(step.written);
}
