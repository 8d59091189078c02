import { purgeTime } from "../../core/guard-decision.ts";
import { clientOf, type Dialect, type Queries } from "./client.ts";
import { failure } from "./errors.ts";
import { checkTable, statementsFor, TABLE } from "./sql.ts";

/** Options of a sweep. */
export interface SweepOptions {
  /** Where keys are; `"ringfence_idempotency"` by default. */
  readonly table?: string;
  /**
   * Removes calls elsewhere that never ended and were begun before this time. Without it they are kept: what became of
   * them is not known, and a retry would be a first call.
   */
  readonly pendingBefore?: Date;
}

/**
 * Removes keys that were done before `before`, and resolves to their number. That time is the promise to callers: a
 * retry that comes later runs again. At most 1,000 rows go in one statement, so that nobody waits for long.
 * @throws InvalidArgumentError, BackendError
 */
export async function sweepIdempotency(
  db: Queries,
  before: Date,
  options: SweepOptions = {},
): Promise<number> {
  const client = clientOf(db);
  const sql = statementsFor(client.dialect, checkTable(options.table ?? TABLE));
  const sweep = async (time: Date, state: "done" | "pending"): Promise<number> => {
    for (let removed = 0; ; ) {
      let count: number;
      try {
        ({ count } = await client.run(sql.sweep(purgeTime(time), state)));
      } catch (error) {
        throw failure(error, "", sql.schema);
      }
      removed += count;
      if (count === 0) return removed;
    }
  };
  const done = await sweep(before, "done");
  const { pendingBefore } = options;
  return pendingBefore === undefined ? done : done + (await sweep(pendingBefore, "pending"));
}

/** The SQL that creates the table of keys. @throws InvalidArgumentError for a name that is no plain identifier */
export function idempotencySchema(dialect: Dialect, table: string = TABLE): string {
  return statementsFor(dialect, checkTable(table)).schema;
}

/**
 * Creates the table of keys where it is missing. Not inside a transaction: MySQL would commit it.
 * @throws InvalidArgumentError, BackendError
 */
export async function createIdempotencyTable(
  db: Queries,
  options: { readonly table?: string } = {},
): Promise<void> {
  const client = clientOf(db);
  const schema = idempotencySchema(client.dialect, options.table);
  try {
    const parts = schema.split(";").filter((part) => part.trim() !== "");
    for (const text of client.dialect === "postgres" ? [together(schema)] : parts)
      await client.run({ text });
  } catch (error) {
    throw failure(error, "", schema);
  }
}

/** PostgreSQL's IF NOT EXISTS fails when two sessions create at once: here they wait for each other. */
function together(schema: string): string {
  return `DO $ringfence$ BEGIN PERFORM pg_advisory_xact_lock(hashtextextended('ringfence idempotency', 0));
${schema}
END $ringfence$`;
}
