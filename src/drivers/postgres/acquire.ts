import type { Answer, Ask, GoneReason, Granted } from "../../core/driver.ts";
import { granted, ms, OFFER_MS } from "../sql/lock-step.ts";
import { decide, exchangeFrom, KEEP_FAR_MS, KEEP_NEAR_MS, type Placed } from "../sql/steps.ts";
import type { Connection } from "./connection.ts";
import { sqlState } from "./errors.ts";
import type { Statements } from "./sql-parts.ts";
import { atOnce, inStep } from "./step.ts";

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
async function refresh(at: Asking, ask: Ask): Promise<Placed | null> {
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
  const { decided, lock, written } = await inStep(connection, sql, about, dueAt, (step) =>
    exchangeFrom(step, from, ask),
  );
  return decided ? lock.granted(written) : { kind: "gone", reason: lock.whyGone };
}
