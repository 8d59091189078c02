import type { GrantRef, Release, Renewal } from "../../core/driver.ts";
import { ms, OFFER_MS } from "../sql/lock-step.ts";
import type { Place } from "../sql/places.ts";
import { reasonOf, releaseIn, revokeIn } from "../sql/steps.ts";
import type { Connection } from "./connection.ts";
import { asPostgresError } from "./errors.ts";
import type { Statements } from "./sql-parts.ts";
import { atOnce, inStep } from "./step.ts";

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

/**
 * Gives back leases and queued entries: at once where nobody waits, else each in a transaction. Behind a lease that came
 * out of a queue others are likely to wait by now. Answers in the order given.
 */
export async function releaseAll(
  at: Giving,
  refs: readonly GrantRef[],
  placeOf: (grantId: string) => Place,
): Promise<readonly Release[]> {
  const all = refs.map((ref, index) => ({ ref, index, place: placeOf(ref.grantId) }));
  const alone = all.filter(({ ref, place }) => isPlain(ref) && place === undefined);
  const done = await releasedAtOnce(at, alone);
  const answers: Release[] = refs.map(() => RELEASED);
  for (const { ref, index, place } of all) {
    if (done.has(index)) continue;
    try {
      const passable = isPlain(ref) && place !== "waits";
      if (!passable || !(await handedOver(at, ref))) answers[index] = await releaseOne(at, ref);
    } catch (error) {
      answers[index] = { kind: "failed", error: asPostgresError(error) };
    }
  }
  return answers;
}

function isPlain(ref: GrantRef): boolean {
  return ref.mode === "exclusive" && ref.refuseLateMs === undefined && ref.raiseTo === undefined;
}

async function releasedAtOnce(
  at: Giving,
  wanted: readonly Numbered[],
): Promise<ReadonlySet<number>> {
  const [only] = wanted;
  if (only === undefined) return new Set();
  if (wanted.length === 1) return new Set((await releasedSole(at, only.ref)) ? [only.index] : []);
  const { connection, sql, dueAt } = at;
  const args = [listed(at, wanted)];
  const rows = await connection.run({ statement: sql.releaseSoles, args }, dueAt);
  return new Set(rows.flatMap((row) => wanted[Number(row) - 1]?.index ?? []));
}

/** False, with nothing done, unless it was held and nobody waits. */
async function releasedSole(at: Giving, { name, grantId }: GrantRef): Promise<boolean> {
  const { connection, sql, dueAt, keyOf } = at;
  const args = [keyOf(name), grantId];
  return (await connection.run({ statement: sql.releaseSole, args }, dueAt)).length > 0;
}

/** False, with nothing done, when there is more to it than an exclusive lease and those who wait for it. */
async function handedOver(at: Giving, ref: GrantRef): Promise<boolean> {
  const { connection, sql, dueAt, keyOf } = at;
  const call = { statement: sql.handOver, args: [keyOf(ref.name), ref.grantId, ms(OFFER_MS)] };
  return (await atOnce(connection, sql, call, "released", dueAt)) !== undefined;
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
