import { LockStep } from "../sql/lock-step.ts";
import type { Sight } from "../sql/sight.ts";
import { type Call, inlined } from "../sql/statement.ts";
import { transaction, unapplied } from "../sql/transaction.ts";
import type { Connection } from "./connection.ts";
import { encoded } from "./options.ts";
import type { Statements } from "./sql-parts.ts";

/** The longest wait for a row that another step has, in milliseconds. */
const LOCK_TIMEOUT_MS = 5000;

/** Which name and grant a step is about. */
interface About {
  readonly key: string;
  readonly grantId: string;
  /** Whether the name's row is made where it is missing. */
  readonly make: boolean;
}

/**
 * One transaction on one name, in two messages: it takes the row and looks, `decide` says what changes, it writes and
 * commits. The first message changes nothing that counts, so whatever ends it, nothing was applied.
 */
export async function inStep<T>(
  connection: Connection,
  sql: Statements,
  about: About,
  dueAt: number,
  decide: (lock: LockStep) => T,
): Promise<{ readonly decided: T; readonly lock: LockStep; readonly written: string }> {
  const { key, grantId, make } = about;
  const calls: Call[] = [{ statement: sql.begin, args: [String(LOCK_TIMEOUT_MS)] }];
  if (make) calls.push({ statement: sql.makeRow, args: [key] });
  calls.push(
    { statement: sql.lockRow, args: [key] },
    { statement: sql.look, args: [key, grantId] },
  );
  return await transaction(connection, dueAt, async () => {
    const seen = (await unapplied(connection.script(script(calls), dueAt))).at(-1);
    if (seen === undefined) throw new Error("the server showed nothing");
    const lock = new LockStep(sql, key, grantId, JSON.parse(seen) as Sight);
    const decided = decide(lock);
    const writes = lock.writes();
    if (writes.length === 0) {
      await unapplied(connection.rollback(dueAt));
      return { decided, lock, written: "" };
    }
    const rows = await connection.script(
      script([...writes, { statement: sql.commit, args: [] }]),
      dueAt,
    );
    // A grant is the last thing written before the commit.
    return { decided, lock, written: rows.at(-1) ?? "" };
  });
}

/**
 * One transaction on one name in one message: it takes the row, and whatever the statement then finds is still so. Answers
 * the row of the statement, which tells itself apart by its first word; nothing when it changed nothing.
 */
export async function atOnce(
  connection: Connection,
  sql: Statements,
  call: Call,
  word: string,
  dueAt: number,
): Promise<string | undefined> {
  const calls: Call[] = [
    { statement: sql.begin, args: [String(LOCK_TIMEOUT_MS)] },
    { statement: sql.lockRow, args: call.args.slice(0, 1) },
    call,
    { statement: sql.commit, args: [] },
  ];
  return await transaction(connection, dueAt, async () => {
    const rows = await connection.script(script(calls), dueAt);
    return rows.find((row) => row.startsWith(word));
  });
}

function script(calls: readonly Call[]): string {
  return calls.map((call) => inlined(call, encoded)).join(";\n");
}
