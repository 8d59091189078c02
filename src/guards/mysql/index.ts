export type { ConnectionOf, MysqlConnection, MysqlPool } from "./client.ts";
export type { MysqlGuard, MysqlGuardOptions } from "./guard.ts";
export { mysqlGuard } from "./guard.ts";
export type { ClaimFragment, FenceColumns, FenceValues, SqlFragment } from "./predicate.ts";
export { mysqlGuardSchema } from "./sql.ts";
