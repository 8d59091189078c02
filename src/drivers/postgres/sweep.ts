import { inlined } from "../sql/statement.ts";
import type { Sweep } from "../sql/sweeper.ts";
import type { Connection } from "./connection.ts";
import { encoded } from "./options.ts";
import type { Statements } from "./sql-parts.ts";

/** Rows cleared in one sweep: more than were added since the last one. */
const SIZE = 1024;

/** Clears tombstones and rows of names that nobody uses. */
export function sweepOf(sql: Statements): Sweep<Connection> {
  return async (connection, dueAt) => {
    await connection.script(inlined({ statement: sql.sweepAside, args: [] }, encoded), dueAt);
    const keys = await connection.run({ statement: sql.idle, args: [String(SIZE)] }, dueAt);
    if (keys.length === 0) return;
    const call = { statement: sql.sweepLocks, args: [JSON.stringify(keys)] };
    await connection.script(inlined(call, encoded), dueAt);
  };
}
