import type { Sweep } from "../sql/sweeper.ts";
import { transaction } from "../sql/transaction.ts";
import { type Connection, rowsOf } from "./connection.ts";
import { CLOSE, OPEN, type Statements } from "./sql-parts.ts";

/** Clears tombstones and rows of names that nobody uses. */
export function sweepOf(sql: Statements): Sweep<Connection> {
  return async (connection, dueAt) => {
    const results = await connection.script(`${sql.sweepAside.text};\n${sql.idle.text}`, dueAt);
    const ids = idsOf(results.at(-1));
    if (ids.length > 0)
      await transaction(connection, dueAt, async () => clear(connection, sql, ids, dueAt));
  };
}

/** Takes the rows that are free first, and looks afterwards: nobody changes what is locked. */
async function clear(
  connection: Connection,
  sql: Statements,
  idle: readonly string[],
  dueAt: number,
): Promise<void> {
  const first = [...OPEN, sql.floor.text, sql.lockIdle(idle)];
  const ids = idsOf((await connection.script(first.join(";\n"), dueAt)).at(-1));
  if (ids.length === 0) {
    await connection.rollback(dueAt);
    return;
  }
  const [spent, simple] = await connection.script(
    [sql.spent(ids), sql.settle(ids)].join(";\n"),
    dueAt,
  );
  const highest = rowsOf(spent)
    .map(([, number]) => BigInt(number ?? 0))
    .reduce((a, b) => (a > b ? a : b), 0n);
  const [gone, settled] = [idsOf(spent), idsOf(simple)];
  const writes = [
    ...(gone.length > 0 ? sql.remove(gone, highest) : []),
    ...(settled.length > 0 ? [sql.settled(settled)] : []),
  ];
  await connection.script([...writes, ...CLOSE].join(";\n"), dueAt);
}

function idsOf(result: Parameters<typeof rowsOf>[0]): string[] {
  return rowsOf(result).flatMap(([id]) => id ?? []);
}
