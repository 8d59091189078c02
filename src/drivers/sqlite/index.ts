export type { SqliteDatabase, SqliteStatement, SqliteValue } from "./client.ts";
export { sqliteDriver } from "./driver.ts";
export type {
  SqliteCapabilities,
  SqliteDurableCapabilities,
  SqliteOptions,
} from "./options.ts";
export { sqliteSchema } from "./schema.ts";
