export type { SqliteConnection, SqliteStatement } from "./client.ts";
export type { SqliteGuard, SqliteGuardOptions } from "./guard.ts";
export { sqliteGuard } from "./guard.ts";
export type { ClaimFragment, FenceColumns, SqlFragment } from "./predicate.ts";
export { sqliteGuardSchema } from "./sql.ts";
