import { BackendConfigError } from "../core/errors.ts";
import type { MysqlClient, MysqlDriverOptions } from "../drivers/mysql/index.ts";
import { installed, splitParameters } from "./table-options.ts";

/** A MySQL URL with our own parameters apart from the client library's. */
export interface MysqlUrl {
  /** For the library: `mysql://user@host:3306/db?ssl={}`. */
  readonly url: string;
  readonly options: MysqlDriverOptions;
}

/** Parameters that are ours. */
const OURS = ["database", "tablePrefix", "autoCreate", "maxSessions", "pooler"];

/** Splits `//host/db` and its parameters. */
export function parseMysqlUrl(rest: string, query: URLSearchParams): MysqlUrl {
  const { theirs, ours } = splitParameters(query, OURS);
  return { url: `mysql:${rest}${theirs}`, options: ours };
}

/**
 * A client for a URL. It carries settings only and never connects, so there is nothing to close.
 * @throws BackendConfigError that says what to install
 */
export async function mysqlClient(url: string): Promise<MysqlClient> {
  const client = await installed<MysqlClient>(async () => {
    const { createPool } = await import("mysql2");
    return createPool(url);
  });
  if (client !== undefined) return client;
  throw new BackendConfigError("mysql: needs a client library: npm install mysql2", {
    operation: "open",
    outcome: "not-applied",
    cause: undefined,
  });
}
