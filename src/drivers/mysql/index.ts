export type { MysqlClient, MysqlConnection, MysqlPool } from "./client.ts";
export { type MysqlCapabilities, mysqlDriver } from "./driver.ts";
export type { MysqlDriverOptions } from "./options.ts";
export { mysqlSchema } from "./schema.ts";
