import type { Capabilities, Mode } from "../../core/capabilities.ts";
import { show } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";

/** What the SQLite driver promises by default: a power loss may undo the last commits. */
export interface SqliteCapabilities extends Capabilities {
  readonly fencing: "volatile";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "host-monotonic";
  readonly modes: Mode;
}

/** What it promises with `durability: "full"`: every grant is on disk before it is answered. */
export interface SqliteDurableCapabilities extends Capabilities {
  readonly fencing: "durable";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "host-monotonic";
  readonly modes: Mode;
}

/** Options of `sqliteDriver`. */
export interface SqliteOptions {
  /**
   * `"normal"` (default): `synchronous=NORMAL`; commits survive a crash of any process, and a power loss may undo the
   * last of them. `"full"`: each step is flushed to the disk, some ten times slower.
   */
  readonly durability?: "normal" | "full";
  /** What the tables' names start with, `"ringfence_"` by default: a letter, then letters, digits or underscores. */
  readonly tablePrefix?: string;
  /** `false`: never creates the file or its tables, and refuses to work without them. `true` by default. */
  readonly autoCreate?: boolean;
}

/** The options, complete and checked. */
export interface Settings {
  readonly durability: "normal" | "full";
  readonly tablePrefix: string;
  readonly autoCreate: boolean;
}

const KNOWN = ["durability", "tablePrefix", "autoCreate"];

/** @throws InvalidArgumentError for an unknown option or an impossible value */
export function checkOptions(options: SqliteOptions): Settings {
  for (const name of Object.keys(options))
    if (!KNOWN.includes(name))
      throw new InvalidArgumentError(
        `Expected the options of sqliteDriver to be ${KNOWN.join(", ")}, got ${show(name)}.`,
      );
  const { durability = "normal", tablePrefix = "ringfence_", autoCreate = true } = options;
  if (!["normal", "full"].includes(durability))
    throw new InvalidArgumentError(
      `Expected \`durability\` to be "normal" or "full", got ${show(durability)}.`,
    );
  checkPrefix(tablePrefix);
  if (typeof autoCreate !== "boolean")
    throw new InvalidArgumentError(
      `Expected \`autoCreate\` to be true or false, got ${show(autoCreate)}.`,
    );
  return { durability, tablePrefix, autoCreate };
}

/** @throws InvalidArgumentError for what could not be the beginning of a plain identifier */
export function checkPrefix(prefix: unknown): void {
  if (typeof prefix !== "string" || !/^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(prefix))
    throw new InvalidArgumentError(
      `Expected \`tablePrefix\` to be a letter or underscore and up to 39 letters, digits or underscores, got ${show(prefix)}.`,
    );
  if (/^sqlite_/i.test(prefix))
    throw new InvalidArgumentError(
      `Expected \`tablePrefix\` to be another than ${show(prefix)}: SQLite keeps sqlite_ for itself.`,
    );
}
