import { InvalidArgumentError } from "../../core/errors.ts";

/** How the lease-table driver is set up. */
export interface PostgresDriverOptions {
  /** The schema of the tables (default `"public"`): any name, it is quoted. It is made with the tables where it is missing. */
  readonly schema?: string;
  /** What the names of the tables begin with (default `"ringfence_"`): any text of at most 40 bytes, it is quoted. */
  readonly tablePrefix?: string;
  /**
   * Whether missing tables are made at the first use (default true). With false nothing but rows is written: apply
   * `ringfence schema print postgres` yourself.
   */
  readonly autoCreate?: boolean;
  /** The most sessions that it opens beside the one that listens, 1 to 100 (default 4). One serves hundreds of leases. */
  readonly maxSessions?: number;
  /**
   * `"session"`: the address is a pooler in session mode, which is as good as none. Without it a pooler is found out by
   * itself and taken for one in transaction mode: waiters then poll instead of listening.
   */
  readonly pooler?: "session";
}

/** How the driver of advisory locks is set up. */
export interface AdvisoryOptions
  extends Pick<PostgresDriverOptions, "schema" | "tablePrefix" | "autoCreate" | "pooler"> {
  /** The most sessions that it opens, 2 to 1000 (default 20): one for each lease, and one or two for questions. */
  readonly maxSessions?: number;
}

export type CheckedAdvisory = Checked;

/** The options, checked. */
export interface Checked {
  readonly tables: Tables;
  readonly autoCreate: boolean;
  readonly maxSessions: number;
  readonly pooler: "session" | undefined;
}

/** The names of the tables, quoted, and of the parts. */
export interface Tables {
  readonly schema: string;
  readonly prefix: string;
  readonly meta: string;
  readonly locks: string;
  readonly shares: string;
  readonly waiters: string;
  readonly tombs: string;
  /** The sequence as a text constant, for `nextval`. */
  readonly tokens: string;
  readonly sequence: string;
  /** Advisory locks by the full name of who has the key. */
  readonly keys: string;
  readonly holders: string;
}

const KNOWN = ["schema", "tablePrefix", "autoCreate", "maxSessions", "pooler"];

/** An identifier, whatever it consists of. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text constant, whatever `standard_conforming_strings` says. */
export function literal(text: string): string {
  const doubled = text.replaceAll("'", "''");
  return doubled.includes("\\") ? ` E'${doubled.replaceAll("\\", "\\\\")}'` : `'${doubled}'`;
}

/** A text constant that needs no quoting at all, for what strangers chose. */
export function encoded(text: string | null): string {
  if (text === null) return "NULL::text";
  if (/^[\w.:%|-]*$/.test(text)) return `'${text}'`;
  return `convert_from(decode('${Buffer.from(text).toString("base64")}','base64'),'UTF8')`;
}

/** @throws InvalidArgumentError that names the option */
export function tablesOf(options: Pick<PostgresDriverOptions, "schema" | "tablePrefix">): Tables {
  const { schema = "public", tablePrefix = "ringfence_" } = options;
  checkIdentifier("schema", schema, 63);
  if (schema === "") throw new InvalidArgumentError("Expected `schema` not to be empty.");
  // Longer names would be cut by the server, two of them to the same one.
  checkIdentifier("tablePrefix", tablePrefix, 40);
  const table = (name: string): string => `${quoted(schema)}.${quoted(tablePrefix + name)}`;
  return {
    schema,
    prefix: tablePrefix,
    meta: table("meta"),
    locks: table("locks"),
    shares: table("shares"),
    waiters: table("waiters"),
    tombs: table("tombs"),
    tokens: literal(table("tokens")),
    sequence: table("tokens"),
    keys: table("keys"),
    holders: table("holders"),
  };
}

/** @throws InvalidArgumentError that names the option */
export function checkOptions(options: PostgresDriverOptions): Checked {
  return check(options, { default: 4, min: 1, max: 100 });
}

/** @throws InvalidArgumentError that names the option */
export function checkAdvisoryOptions(options: AdvisoryOptions): CheckedAdvisory {
  return check(options, { default: 20, min: 2, max: 1000 });
}

function check(
  options: PostgresDriverOptions,
  sessions: { readonly default: number; readonly min: number; readonly max: number },
): Checked {
  refuseUnknown(options, KNOWN);
  const { min, max } = sessions;
  const { autoCreate = true, maxSessions = sessions.default, pooler } = options;
  if (typeof autoCreate !== "boolean")
    throw new InvalidArgumentError("Expected `autoCreate` to be true or false.");
  if (!Number.isInteger(maxSessions) || maxSessions < min || maxSessions > max)
    throw new InvalidArgumentError(
      `Expected \`maxSessions\` to be a whole number from ${min} to ${max}, got ${JSON.stringify(maxSessions)}.`,
    );
  checkPooler(pooler);
  return { tables: tablesOf(options), autoCreate, maxSessions, pooler };
}

function refuseUnknown(options: object, known: readonly string[]): void {
  for (const key of Object.keys(options))
    if (!known.includes(key))
      throw new InvalidArgumentError(
        `Expected only known options (${known.join(", ")}), got \`${key}\`.`,
      );
}

function checkPooler(pooler: unknown): void {
  if (pooler !== undefined && pooler !== "session")
    throw new InvalidArgumentError('Expected `pooler` to be "session" or left out.');
}

function checkIdentifier(option: string, name: unknown, max: number): void {
  if (typeof name !== "string" || name.includes("\0") || Buffer.byteLength(name) > max)
    throw new InvalidArgumentError(
      `Expected \`${option}\` to be text of at most ${max} bytes without NUL, got ${JSON.stringify(name)}.`,
    );
}
