import type { GrantRef, Release, Renewal } from "../../core/driver.ts";
import { ms, OFFER_MS } from "../sql/lock-step.ts";
import type { Place } from "../sql/places.ts";
import { reasonOf, releaseIn, revokeIn } from "../sql/steps.ts";
import { effectOf, rowsOf } from "./connection.ts";
import { asMysqlError } from "./errors.ts";
import { wanted } from "./sql-parts.ts";
import { type At, decided, inStep, type Key, put } from "./step.ts";

const RELEASED = { kind: "released" } as const;

/** What renewals and releases need beside the grants. */
export interface Giving extends At {
  readonly keyOf: (name: string) => Key;
}

/** Renews leases and queued entries, one transaction for each kind that there is; answers in the order given. */
export async function renewAll(at: Giving, refs: readonly GrantRef[]): Promise<readonly Renewal[]> {
  const all = refs.map((_, index) => index);
  const answers: Renewal[] = refs.map(() => ({ kind: "gone", reason: "expired" }));
  const renewed = async (table: "locks" | "shares" | "waiters", some: readonly number[]) => {
    if (some.length === 0) return some;
    const { connection, sql, dueAt } = at;
    const list = listed(at, refs, some);
    const results = await connection.atOnce(
      [sql.renew(table, list), sql.renewed(table, list)],
      dueAt,
    );
    const done = new Set(rowsOf(results[1]).map(([nr]) => Number(nr)));
    for (const index of done)
      answers[index] = { kind: "renewed", ttlMs: Math.ceil(refs[index]?.ttlMs ?? 0) };
    return some.filter((index) => !done.has(index));
  };
  const left = [
    ...(await renewed(
      "locks",
      all.filter((index) => refs[index]?.mode === "exclusive"),
    )),
    ...(await renewed(
      "shares",
      all.filter((index) => refs[index]?.mode !== "exclusive"),
    )),
  ];
  const gone = await renewed("waiters", left);
  if (gone.length === 0) return answers;
  const [why] = await at.connection.script(at.sql.whyGone(listed(at, refs, gone)), at.dueAt);
  for (const [nr, kind = null, taken] of rowsOf(why))
    answers[Number(nr)] = { kind: "gone", reason: reasonOf(kind, taken === "1") };
  return answers;
}

/** Some of the grants as a table. */
function listed(at: Giving, refs: readonly GrantRef[], some: readonly number[]): string {
  return wanted(
    some.flatMap((nr) => {
      const ref = refs[nr];
      if (ref === undefined) return [];
      const { name, grantId, ttlMs, lockDelayMs } = ref;
      return [{ nr, id: at.keyOf(name).id, grantId, ttlMs: ms(ttlMs), delayMs: ms(lockDelayMs) }];
    }),
  );
}

/**
 * Gives back leases and queued entries: at once where nobody waits, or where the next is one that waits for an exclusive
 * lease, else each in a step. Behind a lease that came out of a queue others are likely to wait by now. Answers in the
 * order given.
 */
export async function releaseAll(
  at: Giving,
  refs: readonly GrantRef[],
  placeOf: (grantId: string) => Place,
): Promise<readonly Release[]> {
  const answers: Release[] = [];
  for (const ref of refs) {
    try {
      const done = await releasedAtOnce(at, ref, placeOf(ref.grantId));
      answers.push(done ? RELEASED : await releaseOne(at, ref));
    } catch (error) {
      answers.push({ kind: "failed", error: asMysqlError(error) });
    }
  }
  return answers;
}

/** False, with nothing done, when there is more to it than an exclusive lease and those who wait for it. */
async function releasedAtOnce(at: Giving, ref: GrantRef, place: Place): Promise<boolean> {
  const plain = ref.refuseLateMs === undefined && ref.raiseTo === undefined;
  if (!plain || ref.mode !== "exclusive" || place === "waits") return false;
  const key = at.keyOf(ref.name).id;
  if (place === undefined) {
    const text = put(at.sql.releaseSole, key, ref.grantId);
    const [result] = await at.connection.script(text, at.dueAt);
    if (effectOf(result).rows === 1) return true;
  }
  const offered = await decided(at, at.sql.handOver, key, ref.grantId, ms(OFFER_MS));
  if (offered === undefined) return false;
  at.wake(offered.map(([grant, channel]) => ({ grant: grant ?? "", channel: channel ?? "" })));
  return true;
}

async function releaseOne(at: Giving, ref: GrantRef): Promise<Release> {
  const make = (ref.refuseLateMs ?? 0) > 0;
  const about = { key: at.keyOf(ref.name), grantId: ref.grantId, make };
  return (await inStep(at, about, (step) => releaseIn(step, ref))).decided;
}

/** Frees one grant. */
export async function revoke(
  at: Giving,
  order: { readonly name: string; readonly grantId: string; readonly now: boolean },
): Promise<Release> {
  const { grantId, now } = order;
  const about = { key: at.keyOf(order.name), grantId, make: false };
  return (await inStep(at, about, (step) => revokeIn(step, grantId, now))).decided;
}
