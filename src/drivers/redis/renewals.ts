import { DriverError, type GrantRef, type Renewal } from "../../core/driver.ts";
import type { Outcome } from "./client.ts";
import type { Call } from "./connection.ts";
import { asRedisError, refusedWhole } from "./errors.ts";
import type { KeySpace } from "./keys.ts";
import { whole } from "./quick.ts";
import { NotReplicatedError } from "./replicas.ts";
import { reasonOf } from "./replies.ts";
import { RENEW, RENEW_ASIDE } from "./scripts.ts";
import type { Servers } from "./servers.ts";

/** Where and how renewals are sent. */
interface Way {
  readonly servers: Servers;
  readonly keys: KeySpace;
  /** How many exclusive leases one script renews: 1 where the keys of a script must be of one slot. */
  readonly atOnce: number;
}

/**
 * Renews leases and places in queues, all in one write: exclusive leases by scripts for many at once. What turns out
 * not to be one is asked again, by itself: then it is a place in a queue, or gone, and the answer says why.
 */
export async function renewAll(
  { servers, keys, atOnce }: Way,
  grants: readonly GrantRef[],
  dueAt: number,
): Promise<readonly Renewal[]> {
  const outcomes = new Array<Outcome | undefined>(grants.length);
  const bunches: number[][] = [];
  const aside: number[] = [];
  for (const [i, { mode }] of grants.entries()) {
    const last = bunches.at(-1);
    if (mode !== "exclusive") aside.push(i);
    else if (last === undefined || last.length === atOnce) bunches.push([i]);
    else last.push(i);
  }
  const refs = (members: readonly number[]): GrantRef[] => members.flatMap((i) => grants[i] ?? []);
  const calls = bunches.map((members): Call => {
    const some = refs(members);
    return {
      statement: RENEW,
      keys: some.map(({ name }) => keys.lock(name)),
      args: some.flatMap(({ grantId, ttlMs, lockDelayMs }) => [
        grantId,
        whole(ttlMs),
        whole(lockDelayMs),
      ]),
    };
  });
  const replies = calls.length === 0 ? [] : await servers.runAll(calls, "renew", dueAt);
  for (const [k, members] of bunches.entries()) {
    const reply = replies[k];
    if (reply?.ok === false && members.length > 1 && refusedWhole(reply.error)) {
      aside.push(...members);
      continue;
    }
    for (const [at, i] of members.entries()) {
      if (reply?.ok !== true) outcomes[i] = reply;
      else if ((reply.value as readonly number[])[at] === 1) outcomes[i] = { ok: true, value: [1] };
      else aside.push(i);
    }
  }
  if (aside.length > 0) {
    const again = refs(aside).map(
      ({ name, grantId, ttlMs, lockDelayMs }): Call => ({
        statement: RENEW_ASIDE,
        keys: keys.of(name),
        args: [grantId, whole(ttlMs), whole(lockDelayMs)],
      }),
    );
    const answers = await servers.runAll(again, "renew", dueAt);
    for (const [k, i] of aside.entries()) outcomes[i] = answers[k];
  }
  return grants.map((grant, i) => renewalOf(outcomes[i], Math.ceil(grant.ttlMs)));
}

function renewalOf(outcome: Outcome | undefined, ttlMs: number): Renewal {
  if (outcome === undefined) return { kind: "failed", error: asRedisError(undefined) };
  if (!outcome.ok) {
    const { error } = outcome;
    const known =
      error instanceof NotReplicatedError
        ? new DriverError("unavailable", "unknown", error.message, { cause: error })
        : asRedisError(error);
    return { kind: "failed", error: known };
  }
  const [renewed, reason] = outcome.value as readonly number[];
  return renewed === 1 ? { kind: "renewed", ttlMs } : { kind: "gone", reason: reasonOf(reason) };
}
