import type { GrantRef, Release, Renewal } from "../../core/driver.ts";
import { ms } from "../sql/lock-step.ts";
import { reasonOf, releaseIn, revokeIn } from "../sql/steps.ts";
import type { Connection } from "./connection.ts";
import { asPostgresError } from "./errors.ts";
import type { Statements } from "./sql-parts.ts";
import { inStep } from "./step.ts";

const RELEASED = { kind: "released" } as const;

/** What renewals and releases need beside the grants. */
export interface Giving {
  readonly connection: Connection;
  readonly sql: Statements;
  readonly keyOf: (name: string) => string;
  readonly dueAt: number;
}

interface Numbered {
  readonly ref: GrantRef;
  readonly index: number;
}

/** Renews leases and queued entries, one statement for each kind that there is; answers in the order given. */
export async function renewAll(at: Giving, refs: readonly GrantRef[]): Promise<readonly Renewal[]> {
  const { sql } = at;
  const all = refs.map((ref, index) => ({ ref, index }));
  const answers: Renewal[] = refs.map(() => ({ kind: "gone", reason: "expired" }));
  const sole = all.filter(({ ref }) => ref.mode === "exclusive");
  const others = all.filter(({ ref }) => ref.mode !== "exclusive");
  const left = [
    ...(await renewed(at, sql.renewSole, sole, answers)),
    ...(await renewed(at, sql.renewShares, others, answers)),
  ];
  const gone = await renewed(at, sql.renewWaiters, left, answers);
  if (gone.length > 0)
    for (const row of await at.connection.run(
      { statement: sql.whyGone, args: [listed(at, gone)] },
      at.dueAt,
    )) {
      const [nr, kind, taken] = row.split("|");
      const index = gone[Number(nr) - 1]?.index;
      if (index !== undefined)
        answers[index] = { kind: "gone", reason: reasonOf(kind ?? null, taken === "t") };
    }
  return answers;
}

/** Notes which were renewed, and returns the others. */
async function renewed(
  at: Giving,
  statement: Statements["renewSole"],
  wanted: readonly Numbered[],
  answers: Renewal[],
): Promise<readonly Numbered[]> {
  if (wanted.length === 0) return [];
  const rows = await at.connection.run({ statement, args: [listed(at, wanted)] }, at.dueAt);
  const done = new Set(rows.map((row) => Number.parseInt(row, 10)));
  return wanted.filter(({ ref, index }, i) => {
    if (!done.has(i + 1)) return true;
    answers[index] = { kind: "renewed", ttlMs: Math.ceil(ref.ttlMs) };
    return false;
  });
}

function listed(at: Giving, wanted: readonly Numbered[]): string {
  return JSON.stringify(
    wanted.map(({ ref }) => [at.keyOf(ref.name), ref.grantId, ms(ref.ttlMs), ms(ref.lockDelayMs)]),
  );
}

/** Gives back leases and queued entries: at once where nobody waits, else each in a step. Answers in the order given. */
export async function releaseAll(
  at: Giving,
  refs: readonly GrantRef[],
): Promise<readonly Release[]> {
  const answers: Release[] = refs.map(() => RELEASED);
  const plain = refs.flatMap((ref, index) =>
    ref.mode === "exclusive" && ref.refuseLateMs === undefined && ref.raiseTo === undefined
      ? [{ ref, index }]
      : [],
  );
  const done = await releasedAtOnce(at, plain);
  for (const [index, ref] of refs.entries()) {
    if (done.has(index)) continue;
    try {
      answers[index] = await releaseOne(at, ref);
    } catch (error) {
      answers[index] = { kind: "failed", error: asPostgresError(error) };
    }
  }
  return answers;
}

async function releasedAtOnce(
  at: Giving,
  wanted: readonly Numbered[],
): Promise<ReadonlySet<number>> {
  const { connection, sql, dueAt, keyOf } = at;
  const [only] = wanted;
  if (only === undefined) return new Set();
  if (wanted.length === 1) {
    const args = [keyOf(only.ref.name), only.ref.grantId];
    const rows = await connection.run({ statement: sql.releaseSole, args }, dueAt);
    return new Set(rows.length > 0 ? [only.index] : []);
  }
  const args = [listed(at, wanted)];
  const rows = await connection.run({ statement: sql.releaseSoles, args }, dueAt);
  return new Set(rows.flatMap((row) => wanted[Number(row) - 1]?.index ?? []));
}

async function releaseOne(at: Giving, ref: GrantRef): Promise<Release> {
  const { connection, sql, dueAt, keyOf } = at;
  const make = (ref.refuseLateMs ?? 0) > 0;
  const about = { key: keyOf(ref.name), grantId: ref.grantId, make };
  const { decided } = await inStep(connection, sql, about, dueAt, (lock) => releaseIn(lock, ref));
  return decided;
}

/** Frees one grant. */
export async function revoke(
  at: Giving,
  order: { readonly name: string; readonly grantId: string; readonly now: boolean },
): Promise<Release> {
  const { connection, sql, dueAt, keyOf } = at;
  const { grantId, now } = order;
  const about = { key: keyOf(order.name), grantId, make: false };
  const { decided } = await inStep(connection, sql, about, dueAt, (lock) =>
    revokeIn(lock, grantId, now),
  );
  return decided;
}
