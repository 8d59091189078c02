export type {
  AsyncQueries,
  Dialect,
  MysqlQueries,
  PgQueries,
  PostgresJsQueries,
  Queries,
  SqliteQueries,
} from "./client.ts";
export type { CallOptions, Provider } from "./elsewhere.ts";
export { idempotentCall, settleIdempotentCall } from "./elsewhere.ts";
export type { IdempotentOptions } from "./idempotent.ts";
export { idempotent } from "./idempotent.ts";
export type { SweepOptions } from "./upkeep.ts";
export { createIdempotencyTable, idempotencySchema, sweepIdempotency } from "./upkeep.ts";
