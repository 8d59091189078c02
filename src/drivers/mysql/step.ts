import { LockStep } from "../sql/lock-step.ts";
import { inlined } from "../sql/statement.ts";
import { transaction, unapplied } from "../sql/transaction.ts";
import { type Connection, effectOf, rowsOf } from "./connection.ts";
import { encoded } from "./options.ts";
import { sightOf } from "./sight.ts";
import type { AtOnce } from "./sql-hand-off.ts";
import { CLOSE, OPEN, type Statements } from "./sql-parts.ts";

/** A name: by its hash in the tables, and in full. */
export interface Key {
  readonly id: string;
  readonly name: string;
}

/** Where a step runs. */
export interface At {
  readonly connection: Connection;
  readonly sql: Statements;
  readonly dueAt: number;
  /** Told of the waiters whose turn has come by a step, once it is committed. */
  readonly wake: (waiters: readonly Turn[]) => void;
}

/** Whose turn has come, and where its process is told. */
export interface Turn {
  readonly grant: string;
  readonly channel: string;
}

/** A statement with its parameters put in. */
export function put(statement: Statements["look"], ...args: readonly (string | null)[]): string {
  return inlined({ statement, args }, encoded);
}

/** A step that decides on the server, in one message. What its last statement returned; `undefined` when it did nothing. */
export async function decided(
  { connection, dueAt }: At,
  { statements, decides }: AtOnce,
  ...args: readonly (string | null)[]
): Promise<ReturnType<typeof rowsOf> | undefined> {
  const texts = statements.map((statement) => put(statement, ...args));
  const results = await connection.atOnce(texts, dueAt);
  return effectOf(results[decides]).rows === 1 ? rowsOf(results.at(-1)) : undefined;
}

/**
 * One transaction on one name, in two messages: it takes the row and looks, `decide` says what changes, it writes and
 * commits. The first message changes nothing that counts, so whatever ends it, nothing was applied.
 */
export async function inStep<T>(
  at: At,
  about: { readonly key: Key; readonly grantId: string; readonly make: boolean },
  decide: (lock: LockStep) => T,
): Promise<{ readonly decided: T; readonly lock: LockStep; readonly written: string }> {
  const { connection, sql, dueAt } = at;
  const { key, grantId, make } = about;
  const first = [
    ...OPEN,
    make ? put(sql.makeRow, key.id, key.name) : put(sql.lockRow, key.id),
    put(sql.look, key.id, grantId),
  ];
  return await transaction(connection, dueAt, async () => {
    const seen = (await unapplied(connection.script(first.join(";\n"), dueAt))).at(-1);
    const lock = new LockStep(sql, key.id, grantId, sightOf(rowsOf(seen)));
    const decided = decide(lock);
    const writes = lock.writes();
    if (writes.length === 0) {
      await unapplied(connection.rollback(dueAt));
      return { decided, lock, written: "" };
    }
    const second = [...writes.map((call) => inlined(call, encoded)), ...CLOSE];
    const results = await connection.script(second.join(";\n"), dueAt);
    // A grant is the last thing written before the commit.
    const [row] = rowsOf(results.at(-CLOSE.length - 1));
    at.wake(lock.woken);
    return { decided, lock, written: row?.map((column) => column ?? "").join("|") ?? "" };
  });
}
