import { BackendConfigError } from "../core/errors.ts";
import type { PostgresClient, PostgresDriverOptions } from "../drivers/postgres/index.ts";
import { installed, splitParameters } from "./table-options.ts";

/** A PostgreSQL URL with our own parameters apart from the client library's. */
export interface PostgresUrl {
  /** For the library: `postgres://user@host:5432/db?sslmode=require`. */
  readonly url: string;
  readonly options: PostgresDriverOptions;
}

/** Parameters that are ours. */
const OURS = ["schema", "tablePrefix", "autoCreate", "maxSessions", "pooler"];

/** Splits `//host/db` and its parameters. */
export function parsePostgresUrl(rest: string, query: URLSearchParams): PostgresUrl {
  const { theirs, ours } = splitParameters(query, OURS);
  return { url: `postgres:${rest}${theirs}`, options: ours };
}

/**
 * A client for a URL, of whichever of `pg` and `postgres` is installed. It carries settings only and never connects, so
 * there is nothing to close.
 * @throws BackendConfigError that says what to install
 */
export async function postgresClient(url: string): Promise<PostgresClient> {
  const client =
    (await installed<PostgresClient>(async () => {
      const { Pool } = await import("pg");
      return new Pool({ connectionString: url });
    })) ??
    (await installed<PostgresClient>(async () => {
      const { default: postgres } = await import("postgres");
      return postgres(url);
    }));
  if (client !== undefined) return client;
  throw new BackendConfigError(
    "postgres: needs a client library: npm install pg (or: npm install postgres)",
    { operation: "open", outcome: "not-applied", cause: undefined },
  );
}
