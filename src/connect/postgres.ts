import { BackendConfigError } from "../core/errors.ts";
import type { PostgresClient, PostgresDriverOptions } from "../drivers/postgres/index.ts";

/** A PostgreSQL URL with our own parameters apart from the client library's. */
export interface PostgresUrl {
  /** For the library: `postgres://user@host:5432/db?sslmode=require`. */
  readonly url: string;
  readonly options: PostgresDriverOptions;
}

/** Parameters that are ours. */
const OURS = ["schema", "tablePrefix", "autoCreate", "maxSessions", "pooler"];

/** Splits `//host/db` and its parameters; what a value may be is the driver's to say. */
export function parsePostgresUrl(rest: string, query: URLSearchParams): PostgresUrl {
  const theirs = [...query].filter(([key]) => !OURS.includes(key));
  const parameters = new URLSearchParams(theirs).toString();
  const flag = query.get("autoCreate");
  const text = (key: string): object => {
    const value = query.get(key);
    return value === null ? {} : { [key]: value };
  };
  const max = query.get("maxSessions");
  return {
    url: `postgres:${rest}${parameters === "" ? "" : `?${parameters}`}`,
    options: {
      ...text("schema"),
      ...text("tablePrefix"),
      ...text("pooler"),
      ...(max === null ? {} : { maxSessions: Number(max) }),
      // Any other word is refused by the driver, which takes true or false only.
      ...(flag === null
        ? {}
        : { autoCreate: { true: true, false: false }[flag] ?? (flag as never) }),
    },
  };
}

/**
 * A client for a URL, of whichever of `pg` and `postgres` is installed. It carries settings only and never connects, so
 * there is nothing to close.
 * @throws BackendConfigError that says what to install
 */
export async function postgresClient(url: string): Promise<PostgresClient> {
  const client =
    (await installed(async () => {
      const { Pool } = await import("pg");
      return new Pool({ connectionString: url });
    })) ??
    (await installed(async () => {
      const { default: postgres } = await import("postgres");
      return postgres(url);
    }));
  if (client !== undefined) return client;
  throw new BackendConfigError(
    "postgres: needs a client library: npm install pg (or: npm install postgres)",
    { operation: "open", outcome: "not-applied", cause: undefined },
  );
}

async function installed(make: () => Promise<PostgresClient>): Promise<PostgresClient | undefined> {
  try {
    return await make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}
