import { InvalidArgumentError } from "../../core/errors.ts";

/** How the lease-table driver is set up. */
export interface MysqlDriverOptions {
  /** The database of the tables: any name, it is quoted. By default that of the client. It is made with the tables where it is missing. */
  readonly database?: string;
  /** What the names of the tables begin with (default `"ringfence_"`): any text of at most 40 characters, it is quoted. */
  readonly tablePrefix?: string;
  /**
   * Whether missing tables are made at the first use (default true). With false nothing but rows is written: apply
   * `ringfence schema print` yourself.
   */
  readonly autoCreate?: boolean;
  /** The most sessions that it opens, 1 to 100 (default 4). One serves hundreds of leases. */
  readonly maxSessions?: number;
  /**
   * `"session"`: the address is a proxy that gives each client one session of one server for as long as it is connected.
   * Without it a proxy that shares sessions out is found out by itself, and refused.
   */
  readonly pooler?: "session";
}

/** The options, checked. */
export interface Checked {
  readonly tables: Tables;
  readonly autoCreate: boolean;
  readonly maxSessions: number;
  readonly pooler: "session" | undefined;
}

/** The names of the tables, quoted, and of the parts. */
export interface Tables {
  /** `undefined`: the client's. */
  readonly database: string | undefined;
  readonly prefix: string;
  readonly meta: string;
  readonly locks: string;
  readonly shares: string;
  readonly waiters: string;
  readonly tombs: string;
}

const KNOWN = ["database", "tablePrefix", "autoCreate", "maxSessions", "pooler"];

/** An identifier, whatever it consists of. */
export function quoted(name: string): string {
  return `\`${name.replaceAll("`", "``")}\``;
}

/** A text constant that needs no quoting at all, for what strangers chose: no `sql_mode` changes what it is. */
export function encoded(text: string | null): string {
  if (text === null) return "NULL";
  if (/^[\w.:%|-]*$/.test(text)) return `'${text}'`;
  return `_utf8mb4 X'${Buffer.from(text).toString("hex")}'`;
}

/** @throws InvalidArgumentError that names the option */
export function tablesOf(options: Pick<MysqlDriverOptions, "database" | "tablePrefix">): Tables {
  const { database, tablePrefix = "ringfence_" } = options;
  if (database !== undefined) {
    checkIdentifier("database", database, 64);
    if (database === "" || database.endsWith(" "))
      throw new InvalidArgumentError("Expected `database` not to be empty or to end with a space.");
  }
  checkIdentifier("tablePrefix", tablePrefix, 40);
  const within = database === undefined ? "" : `${quoted(database)}.`;
  const table = (name: string): string => within + quoted(tablePrefix + name);
  return {
    database,
    prefix: tablePrefix,
    meta: table("meta"),
    locks: table("locks"),
    shares: table("shares"),
    waiters: table("waiters"),
    tombs: table("tombs"),
  };
}

/** @throws InvalidArgumentError that names the option */
export function checkOptions(options: MysqlDriverOptions): Checked {
  for (const key of Object.keys(options))
    if (!KNOWN.includes(key))
      throw new InvalidArgumentError(
        `Expected only known options (${KNOWN.join(", ")}), got \`${key}\`.`,
      );
  const { autoCreate = true, maxSessions = 4 } = options;
  const pooler: unknown = options.pooler;
  if (typeof autoCreate !== "boolean")
    throw new InvalidArgumentError("Expected `autoCreate` to be true or false.");
  if (!Number.isInteger(maxSessions) || maxSessions < 1 || maxSessions > 100)
    throw new InvalidArgumentError(
      `Expected \`maxSessions\` to be a whole number from 1 to 100, got ${JSON.stringify(maxSessions)}.`,
    );
  if (pooler !== undefined && pooler !== "session")
    throw new InvalidArgumentError('Expected `pooler` to be "session" or left out.');
  return { tables: tablesOf(options), autoCreate, maxSessions, pooler };
}

/** The server has identifiers of at most 64 characters, none of them above U+FFFF. */
function checkIdentifier(option: string, name: unknown, max: number): void {
  if (typeof name !== "string" || name.length > max || /[\0\u{10000}-\u{10ffff}]/u.test(name))
    throw new InvalidArgumentError(
      `Expected \`${option}\` to be text of at most ${max} characters up to U+FFFF without NUL, got ${JSON.stringify(name)}.`,
    );
}
