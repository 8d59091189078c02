/*
 * A guard over MySQL 8 or MariaDB 10.6 and later (InnoDB), through the user's own pool of `mysql2/promise`.
 *
 * State: one row per resource, (token, grant id, scope, last use), and one per scope with the floor that missing rows
 * inherit, in the database that also has the guarded data.
 * Atomic step: a claim and a verify are one conditional UPDATE of the resource's row. It looks at the newest row in
 * every isolation level, and its row lock keeps every other claim out until the transaction ends.
 * Why `verify` also reads: under REPEATABLE READ, the default of these databases, plain reads show the snapshot of the
 * transaction's first read, while UPDATE sees the newest row and does not complain:
 *   B: BEGIN, read something      A: write, COMMIT      B: claim elsewhere, read (A's write is missing), verify, write
 * So `verify` first reads the entry as the snapshot has it: it has the holder's pair only if the snapshot is younger
 * than its claim, and since the claim nobody else wrote. `run` opens READ COMMITTED itself.
 * Why the floor comes last: the insert waits for whoever deletes a row of its name, and the locking read after it sees
 * the floor that this deletion left. Why pairs never come back: see `decideClaim`.
 * What breaks it: writes that neither claim nor verify, data in another database server or in a table without
 * transactions (MyISAM), reads under a claim that go to a replica, a failover that loses commits.
 */
import { BackendError, InvalidArgumentError, StaleTokenError } from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import type { Adoption, Claim, Presentation } from "../../core/guard.ts";
import { decideAdoption, decideClaim, decideVerify } from "../../core/guard-decision.ts";
import { type Answer, type MysqlConnection, query, type Value } from "./client.ts";
import { failure, isDuplicate, isMissingTable, numberOf } from "./errors.ts";
import type { Statements } from "./sql.ts";
import { unsettled } from "./transaction.ts";

/** More than any number of others that can come between two statements of one transaction. */
const MOST_LOOKS = 20;

const bytes = (text: string): Buffer => Buffer.from(text);

/** The values of an entry, in the order of its columns. */
function valuesOf(resource: string, { token, grantId, scope }: Claim): Value[] {
  return [bytes(resource), token.toString(), bytes(grantId), bytes(scope)];
}

/** Claims in the given order, which is every holder's: two lists never wait for each other crosswise. */
export async function claimAll(
  tx: MysqlConnection,
  sql: Statements,
  list: readonly string[],
  mine: Presentation,
): Promise<void> {
  for (const resource of list) await claimOne(tx, sql, resource, mine);
  // The wait for the rows may have been long.
  mine.checkDeadline();
}

async function claimOne(
  tx: MysqlConnection,
  sql: Statements,
  resource: string,
  mine: Claim,
): Promise<void> {
  const [name, token, grant, scope] = valuesOf(resource, mine);
  const values = [token, grant, name, scope, token, token, grant];
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    if ((await own("claim", query(tx, sql.claim, values))).count === 1) return;
    const entry = entryIn(await own("claim", query(tx, sql.seen, [name])));
    if (entry !== null) {
      decideClaim(resource, { entry, floor: 0n }, mine);
      // It passes now: the entry that refused us is gone, and another one has come.
      continue;
    }
    if (!(await inserted(tx, sql, resource, mine))) continue;
    decideClaim(resource, { entry: null, floor: await floorOf(tx, sql, mine.scope) }, mine);
    return;
  }
  throw unsettled("claim");
}

/** Whether there was no entry, and is this one now. */
async function inserted(
  tx: MysqlConnection,
  sql: Statements,
  resource: string,
  claim: Claim,
): Promise<boolean> {
  try {
    await query(tx, sql.insert, valuesOf(resource, claim));
    return true;
  } catch (error) {
    if (isDuplicate(error)) return false;
    throw failure("claim", error);
  }
}

/** Exists from its first statement to the end of the transaction: outside of one it is gone at once. */
const MARK = "ringfence_verify";
const NO_SAVEPOINT = 1305;

/** Verifies each resource, and that a transaction is open, of whose writes that decides. */
export async function verifyAll(
  tx: MysqlConnection,
  sql: Statements,
  list: readonly string[],
  mine: Claim,
): Promise<void> {
  await own("verify", query(tx, `SAVEPOINT ${MARK}`));
  for (const resource of list) {
    try {
      await verifyOne(tx, sql, resource, mine);
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
  try {
    await query(tx, `RELEASE SAVEPOINT ${MARK}`);
  } catch (error) {
    if (numberOf(error) !== NO_SAVEPOINT) throw failure("verify", error);
    throw new InvalidArgumentError(
      "Expected an open transaction for verify: it decides about the writes of that transaction.",
    );
  }
}

async function verifyOne(
  tx: MysqlConnection,
  sql: Statements,
  resource: string,
  mine: Claim,
): Promise<void> {
  const values = valuesOf(resource, mine);
  const seen = entryIn(await query(tx, sql.seen, values.slice(0, 1)));
  const { count } = await query(tx, sql.verify, values);
  if (count !== 1) {
    // What is stored now, not what the snapshot shows.
    const entry = entryIn(await query(tx, sql.lock, values.slice(0, 1)));
    decideVerify(resource, entry, mine);
    throw unsettled("verify");
  }
  if (seen?.token !== mine.token || seen.grantId !== mine.grantId || seen.scope !== mine.scope)
    throw new BackendError(
      "The transaction's snapshot is older than the claim: what it read may be stale. Begin the transaction after the claim, or in READ COMMITTED.",
      { operation: "verify", outcome: "not-applied" },
    );
}

/** Moves one entry to another scope, in one transaction. */
export async function adoptOne(
  tx: MysqlConnection,
  sql: Statements,
  resource: string,
  adoption: Adoption,
): Promise<void> {
  // A row to lock, whoever else comes at the same time: a placeholder of the scope that is left, which nobody can present.
  await inserted(tx, sql, resource, { token: 0n, grantId: "", scope: adoption.from });
  const locked = entryIn(await own("adopt", query(tx, sql.lock, [bytes(resource)])));
  const fresh = locked?.grantId === "" && locked.token === 0n && locked.scope === adoption.from;
  const floor = await floorOf(tx, sql, adoption.to);
  const move = decideAdoption(resource, { entry: fresh ? null : locked, floor }, adoption);
  if (move === null) return;
  if (move.leftFloor > 0n)
    await own("adopt", query(tx, sql.raise, [bytes(adoption.from), move.leftFloor.toString()]));
  await own("adopt", query(tx, sql.install, valuesOf(resource, move.entry)));
}

/** Deletes what was last used before a time in Unix milliseconds, and keeps floors under it. */
export async function purgeOld(
  tx: MysqlConnection,
  sql: Statements,
  beforeMs: number,
): Promise<number> {
  const values = [beforeMs.toString()];
  await own("purge", query(tx, sql.raiseOld, values));
  return (await own("purge", query(tx, sql.deleteOld, values))).count;
}

/** Runs a statement of the guard's own, whose failures become typed errors. */
async function own(operation: string, answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    throw failure(operation, error);
  }
}

function entryIn({ rows }: Answer): Claim | null {
  const row = rows[0];
  if (row === undefined) return null;
  const { token, holder, scope } = row as { token: string; holder: Buffer; scope: Buffer };
  return { token: BigInt(token), grantId: holder.toString(), scope: scope.toString() };
}

async function floorOf(tx: MysqlConnection, sql: Statements, scope: string): Promise<bigint> {
  const { rows } = await own("claim", query(tx, sql.floor, [bytes(scope)]));
  return parseToken(rows[0]?.["token"]) ?? 0n;
}
