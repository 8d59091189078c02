import { InvalidArgumentError } from "../../core/errors.ts";
import { quoteIdentifier, quoteTable, quoteText } from "./sql.ts";

/** What a trigger protects. */
export interface GuardTriggerOptions {
  /** The table whose writes need a claim or a verify in their transaction: `"table"` or `"schema.table"`. */
  readonly on: string;
  /** The resource that guards a row: one for the whole table, or a prefix and the row's own column: `documents/7`. */
  readonly resource: string | { readonly prefix: string; readonly column: string };
  /** The guard's table; `"ringfence_guard"` by default. */
  readonly table?: string;
}

/**
 * The SQL of a trigger that refuses every write to a table whose transaction did not claim or verify the row's resource,
 * from any program: with SQLSTATE `RF001`. It catches forgotten paths, not malice: whoever may drop triggers, or write
 * to the guard's table, can pass. TRUNCATE is refused where each row has a resource of its own.
 * @throws InvalidArgumentError for impossible names
 */
export function postgresGuardTrigger(options: GuardTriggerOptions): string {
  const { on, resource, table = "ringfence_guard" } = options;
  const [target, guard] = [quoteTable(on, "on"), quoteTable(table, "table")];
  const whole = typeof resource === "string";
  const [prefix, column] = whole ? [resource, ""] : [resource.prefix, resource.column];
  if (!whole) quoteIdentifier(column, "resource.column");
  if (whole && prefix === "")
    throw new InvalidArgumentError("Expected `resource` to be the name of a resource.");
  const call = `${quoteTable(`${table}_check`, "table")}(${quoteText(prefix)}, ${quoteText(column)})`;
  return `${functionFor(table, guard)}
CREATE OR REPLACE TRIGGER ringfence_guarded BEFORE INSERT OR UPDATE OR DELETE ON ${target}
  FOR EACH ROW EXECUTE FUNCTION ${call};
CREATE OR REPLACE TRIGGER ringfence_guarded_truncate BEFORE TRUNCATE ON ${target}
  FOR EACH STATEMENT EXECUTE FUNCTION ${call};
`;
}

/**
 * Why `used_in` proves it: only this transaction can have written its own id there, the row is locked until it ends, and
 * the id is the outer transaction's, also under savepoints; a savepoint that is rolled back takes it along.
 */
function functionFor(tableName: string, guard: string): string {
  return `CREATE OR REPLACE FUNCTION ${quoteTable(`${tableName}_check`, "table")}() RETURNS trigger
LANGUAGE plpgsql AS $ringfence$
DECLARE
  wanted text[];
  missing text;
BEGIN
  IF TG_LEVEL = 'STATEMENT' AND TG_ARGV[1] <> '' THEN
    RAISE EXCEPTION 'unguarded write: TRUNCATE of %', TG_TABLE_NAME USING ERRCODE = 'RF001';
  END IF;
  IF TG_ARGV[1] = '' THEN
    wanted := ARRAY[TG_ARGV[0]];
  ELSE
    IF TG_OP <> 'INSERT' THEN
      wanted := wanted || (TG_ARGV[0] || coalesce(to_jsonb(OLD) ->> TG_ARGV[1], ''));
    END IF;
    IF TG_OP <> 'DELETE' THEN
      wanted := wanted || (TG_ARGV[0] || coalesce(to_jsonb(NEW) ->> TG_ARGV[1], ''));
    END IF;
  END IF;
  SELECT w INTO missing FROM unnest(wanted) AS w
    WHERE NOT EXISTS (
      SELECT FROM ${guard} g WHERE g.resource = w AND g.used_in = pg_current_xact_id_if_assigned()
    ) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION 'unguarded write: % of % without a claim or verify of %', TG_OP, TG_TABLE_NAME, missing
      USING ERRCODE = 'RF001', HINT = 'Write in guard.run(...), or call guard.verify(tx, ...) first.';
  END IF;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END
$ringfence$;`;
}
