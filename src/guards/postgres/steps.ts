/*
 * A guard over PostgreSQL, 13 or later, through the user's own pool.
 *
 * State: one row per resource, (token, grant id, scope, last use), and one per scope with the floor that missing rows
 * inherit, in the database that also has the guarded data.
 * Atomic step: a claim and a verify are one conditional UPDATE of the resource's row. Its row lock keeps every other
 * claim out until the transaction ends, and after a wait READ COMMITTED looks at the newest row, not at the snapshot's.
 * Why update and not only lock: under REPEATABLE READ
 *   A: verify, write, COMMIT      B (older snapshot): claim by SELECT FOR UPDATE passes, reads the value before A's
 * and an UPDATE of a row that changed after the snapshot fails there (40001). `run` opens READ COMMITTED itself, so that
 * what its body reads after the claim is what the predecessor committed.
 * Why the floor comes last: a row is inserted first, which waits for whoever deletes one of its name, and then a second
 * statement, with a snapshot of its own, reads the floor that this deletion left. Why pairs never come back: see
 * `decideClaim`.
 * What breaks it: writes that neither claim nor verify (a trigger can refuse them), data in another database, reads
 * under a claim that go to a replica, `synchronous_commit = off` with a crash, promotion of a standby that lags.
 */
import { BackendConfigError, type RingfenceError, StaleTokenError } from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import type { Claim, Presentation } from "../../core/guard.ts";
import { decideClaim, decideVerify } from "../../core/guard-decision.ts";
import type { Answer, Session } from "./client.ts";
import { failure, isMissingTable } from "./errors.ts";
import { constant, type Statements } from "./sql.ts";

/** More than any number of others that can come between two statements of one transaction. */
const MOST_LOOKS = 20;

/**
 * Claims in the given order, which is every holder's: two lists never wait for each other crosswise. `first`: the answer
 * to `firstClaim`, where that was sent already.
 */
export async function claimAll(
  session: Session,
  sql: Statements,
  list: readonly string[],
  mine: Presentation,
  first: Promise<Answer> | undefined,
): Promise<void> {
  let asked = first;
  for (const resource of list) {
    await claimOne(session, sql, resource, mine, asked);
    asked = undefined;
  }
  // The wait for the rows may have been long.
  mine.checkDeadline();
}

/** The claim of the first resource, for the message that begins the transaction. */
export function firstClaim(
  sql: Statements,
  [resource = ""]: readonly string[],
  mine: Claim,
): string {
  return sql.claimWith([resource, mine.token.toString(), mine.grantId, mine.scope].map(constant));
}

async function claimOne(
  session: Session,
  sql: Statements,
  resource: string,
  mine: Claim,
  first: Promise<Answer> | undefined,
): Promise<void> {
  const values = [resource, mine.token.toString(), mine.grantId, mine.scope];
  let asked = first;
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    if ((await own("claim", asked ?? session.query(sql.claim, values))).count === 1) return;
    asked = undefined;
    const entry = entryIn(await own("claim", session.query(sql.entry, [resource])));
    if (entry !== null) {
      decideClaim(resource, { entry, floor: 0n }, mine);
      // It passes now: the entry that refused us is gone, and another one has come.
      continue;
    }
    if ((await own("claim", session.query(sql.insert, values))).count !== 1) continue;
    const floor = await floorOf(session, sql, mine.scope);
    decideClaim(resource, { entry: null, floor }, mine);
    return;
  }
  throw unsettled("claim");
}

/** Verifies each; also bounds for how long this transaction may keep a successor out. */
export async function verifyAll(
  session: Session,
  sql: Statements,
  list: readonly string[],
  verified: { readonly mine: Presentation; readonly leftMs: number },
): Promise<void> {
  for (const resource of list) await verifyOne(session, sql, resource, verified);
}

async function verifyOne(
  session: Session,
  sql: Statements,
  resource: string,
  { mine, leftMs }: { readonly mine: Presentation; readonly leftMs: number },
): Promise<void> {
  const values = [resource, mine.token.toString(), mine.grantId, mine.scope, leftMs.toString()];
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    try {
      const verify = session.endsWell ? sql.verify : sql.verifyOnly;
      if ((await session.query(verify, values)).count === 1) return;
      // With its lock, in an older snapshot, this fails with 40001 where the entry is newer: that is no stale token.
      decideVerify(resource, entryIn(await session.query(sql.lock, [resource])), mine);
    } catch (error) {
      // Without a table nobody has claimed.
      if (isMissingTable(error))
        throw new StaleTokenError({
          resource,
          presented: mine.token,
          highest: null,
          step: "verify",
        });
      throw failure("verify", error);
    }
  }
  throw unsettled("verify");
}

/** Runs a statement of the guard's own, whose failures become typed errors. */
export async function own(operation: string, answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    throw failure(operation, error);
  }
}

export function entryIn({ rows }: Answer): Claim | null {
  const row = rows[0];
  if (row === undefined) return null;
  const { token, holder, scope } = row as { token: string; holder: string; scope: string };
  // An adopted entry may have token 0, which nobody can present.
  return { token: BigInt(token), grantId: holder, scope };
}

export async function floorOf(session: Session, sql: Statements, scope: string): Promise<bigint> {
  const { rows } = await own("claim", session.query(sql.floor, [scope]));
  return parseToken(rows[0]?.["token"]) ?? 0n;
}

function unsettled(operation: string): RingfenceError {
  return new BackendConfigError(
    "The guard's row kept changing between two statements: is something else writing to the guard's table?",
    { operation, outcome: "not-applied" },
  );
}
