export { type PostgresAdvisoryCapabilities, postgresAdvisoryDriver } from "./advisory.ts";
export type { PgClient, PgPool, PostgresClient, PostgresJs } from "./client.ts";
export { type PostgresCapabilities, postgresDriver } from "./driver.ts";
export type { AdvisoryOptions, PostgresDriverOptions } from "./options.ts";
export { postgresSchema } from "./schema.ts";
export {
  LockNotAvailableError,
  type RowOf,
  tryRowLock,
  withAdvisoryXact,
  withRowLock,
  type XactOptions,
} from "./transaction.ts";
export type {
  DrizzleTransaction,
  KyselyTransaction,
  PgTransaction,
  PostgresJsTransaction,
  PrismaTransaction,
  UserTransaction,
} from "./transaction-clients.ts";
