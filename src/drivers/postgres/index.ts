export { type PostgresAdvisoryCapabilities, postgresAdvisoryDriver } from "./advisory.ts";
export type { PgClient, PgPool, PostgresClient, PostgresJs } from "./client.ts";
export { type PostgresCapabilities, postgresDriver } from "./driver.ts";
export type { AdvisoryOptions, PostgresDriverOptions } from "./options.ts";
export { postgresSchema } from "./schema.ts";
export {
  type DrizzleTransaction,
  type KyselyTransaction,
  LockNotAvailableError,
  type PgTransaction,
  type PostgresJsTransaction,
  type RowOf,
  tryRowLock,
  type UserTransaction,
  withAdvisoryXact,
  withRowLock,
  type XactOptions,
} from "./transaction.ts";
