import type { GrantRef, Release, Renewal } from "../../core/driver.ts";
import { ms } from "../sql/lock-step.ts";
import { reasonOf, releaseIn, revokeIn } from "../sql/steps.ts";
import { rowsOf } from "./connection.ts";
import { asMysqlError } from "./errors.ts";
import { wanted } from "./sql-parts.ts";
import { type At, inStep, type Key, put } from "./step.ts";

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

/** Gives back leases and queued entries: at once where nobody waits, else each in a step. Answers in the order given. */
export async function releaseAll(
  at: Giving,
  refs: readonly GrantRef[],
): Promise<readonly Release[]> {
  const answers: Release[] = [];
  for (const ref of refs) {
    try {
      answers.push((await releasedAtOnce(at, ref)) ? RELEASED : await releaseOne(at, ref));
    } catch (error) {
      answers.push({ kind: "failed", error: asMysqlError(error) });
    }
  }
  return answers;
}

async function releasedAtOnce(at: Giving, ref: GrantRef): Promise<boolean> {
  const plain = ref.refuseLateMs === undefined && ref.raiseTo === undefined;
  if (!plain || ref.mode !== "exclusive") return false;
  const text = put(at.sql.releaseSole, at.keyOf(ref.name).id, ref.grantId);
  const [changed] = await at.connection.script(text, at.dueAt);
  return changed === 1;
}

async function releaseOne(at: Giving, ref: GrantRef): Promise<Release> {
  const make = (ref.refuseLateMs ?? 0) > 0;
  const about = { key: at.keyOf(ref.name), grantId: ref.grantId, make };
  const { decided } = await inStep(at, about, (step) => releaseIn(step, ref));
  return decided;
}

/** Frees one grant. */
export async function revoke(
  at: Giving,
  order: { readonly name: string; readonly grantId: string; readonly now: boolean },
): Promise<Release> {
  const { grantId, now } = order;
  const about = { key: at.keyOf(order.name), grantId, make: false };
  const { decided } = await inStep(at, about, (step) => revokeIn(step, grantId, now));
  return decided;
}
