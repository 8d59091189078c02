export type { PostgresDatabase, PostgresTransaction, TransactionOf } from "./client.ts";
export type { PostgresGuard, PostgresGuardOptions } from "./guard.ts";
export { postgresGuard } from "./guard.ts";
export type { PgClient, PgPool } from "./pg.ts";
export type { PostgresJs, PostgresJsTransaction } from "./postgres-js.ts";
export type {
  ClaimFragment,
  FenceColumns,
  FenceValues,
  Numbering,
  SqlFragment,
  SqlTag,
} from "./predicate.ts";
export { postgresGuardSchema } from "./sql.ts";
export type { GuardTriggerOptions } from "./trigger.ts";
export { postgresGuardTrigger } from "./trigger.ts";
