import type { LockRecord } from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";
import { pageOf, recordOf as recordFrom, type Shown } from "../sql/records.ts";
import type { Connection } from "./connection.ts";
import type { Statements } from "./sql-parts.ts";

/** What people are shown of a name. */
export async function recordOf(
  connection: Connection,
  sql: Statements,
  at: { readonly name: string; readonly key: string; readonly dueAt: number },
): Promise<LockRecord> {
  const [row = "{}"] = await connection.run({ statement: sql.inspect, args: [at.key] }, at.dueAt);
  return recordFrom(at.name, JSON.parse(row) as Shown);
}

/** Names that are held or waited for, in the order of their encoded bytes; the cursor is the last key. */
export async function listNames(
  connection: Connection,
  sql: Statements,
  space: string,
  page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
  dueAt: number,
): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
  const from = space + encodeName(page.prefix);
  // Every character of a key sorts before the brace.
  const args = [from, `${from}{`, page.cursor ?? "", String(page.limit + 1)];
  const keys = await connection.run({ statement: sql.list, args }, dueAt);
  return pageOf(keys, page.limit, space);
}
