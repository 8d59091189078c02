import { DriverError } from "../../core/driver.ts";

/** SQLite's primary result codes, of https://www.sqlite.org/rescode.html, as far as they decide something here. */
const CODE = {
  ERROR: 1,
  PERM: 3,
  BUSY: 5,
  LOCKED: 6,
  NOMEM: 7,
  READONLY: 8,
  INTERRUPT: 9,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  SCHEMA: 17,
  AUTH: 23,
  NOTADB: 26,
} as const;

/** What one code means: whether asking again can help, whether the step may have been applied, and what to do. */
type Meaning = readonly [DriverError["kind"], DriverError["outcome"], string];

const MEANINGS: ReadonlyMap<number, Meaning> = new Map<number, Meaning>([
  [CODE.BUSY, ["busy", "not-applied", "another process is writing"]],
  [CODE.LOCKED, ["busy", "not-applied", "another statement of this process holds the table"]],
  [CODE.NOMEM, ["unavailable", "not-applied", "SQLite found no memory"]],
  [CODE.INTERRUPT, ["unavailable", "not-applied", "the statement was interrupted"]],
  [CODE.FULL, ["unavailable", "not-applied", "the disk or quota is full; free some space"]],
  // A commit whose write or fsync failed may or may not be in the log that others read.
  [CODE.IOERR, ["unavailable", "unknown", "the disk failed to read or write; look at its health"]],
  [CODE.ERROR, ["config", "not-applied", "its tables are missing or were made by another program"]],
  [CODE.SCHEMA, ["config", "not-applied", "its tables were changed while they were in use"]],
  [CODE.PERM, ["config", "not-applied", "access was refused; check owner and mode of the file"]],
  [CODE.AUTH, ["config", "not-applied", "an authorizer refused the statement"]],
  [
    CODE.READONLY,
    [
      "config",
      "not-applied",
      "it cannot be written; check the mode of the file and its folder, and that the file system is not mounted read-only",
    ],
  ],
  [
    CODE.CANTOPEN,
    [
      "config",
      "not-applied",
      "it cannot be opened; check that the path is a file in a folder that can be written",
    ],
  ],
  [
    CODE.CORRUPT,
    [
      "config",
      "not-applied",
      "it is damaged; stop all users, move it away and let a new one be made",
    ],
  ],
  [CODE.NOTADB, ["config", "not-applied", "it is not an SQLite database; name another path"]],
]);

/** Codes of the file system, met before SQLite is asked. */
const FILE_MEANINGS: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  [
    "EACCES",
    [
      "config",
      "not-applied",
      "access was refused; check owner and mode of the file and its folder",
    ],
  ],
  [
    "EPERM",
    [
      "config",
      "not-applied",
      "access was refused; check owner and mode of the file and its folder",
    ],
  ],
  ["EROFS", ["config", "not-applied", "its file system is mounted read-only"]],
  ["ENOENT", ["config", "not-applied", "it does not exist"]],
  ["EEXIST", ["config", "not-applied", "a part of its path is not a folder"]],
  ["ENOTDIR", ["config", "not-applied", "a part of its path is not a folder"]],
  ["EISDIR", ["config", "not-applied", "it is a folder; name a file in it"]],
  ["ENAMETOOLONG", ["config", "not-applied", "its path is too long"]],
  ["ELOOP", ["config", "not-applied", "its path is a loop of symbolic links"]],
  ["ENOSPC", ["unavailable", "not-applied", "the disk is full; free some space"]],
  ["EDQUOT", ["unavailable", "not-applied", "the disk quota is used up; free some space"]],
  ["EMFILE", ["unavailable", "not-applied", "this process has too many open files"]],
  ["ENFILE", ["unavailable", "not-applied", "the system has too many open files"]],
]);

/**
 * The extended result code of an error that a client threw; `null` for one that did not come from SQLite.
 * `node:sqlite` has `errcode`, libsql `rawCode`; better-sqlite3 has the name of the code only.
 */
export function resultCode(error: unknown): number | null {
  if (typeof error !== "object" || error === null) return null;
  const { errcode, rawCode, code } = error as Record<string, unknown>;
  if (typeof errcode === "number") return errcode;
  if (typeof rawCode === "number") return rawCode;
  if (typeof code !== "string" || !code.startsWith("SQLITE_")) return null;
  const primary = code.split("_")[1] ?? "";
  return (CODE as Readonly<Record<string, number>>)[primary] ?? null;
}

/** Whether another connection holds the lock that a step needs: nothing happened, and asking again helps. */
export function isBusy(error: unknown): boolean {
  if (error instanceof DriverError) return error.kind === "busy";
  const primary = (resultCode(error) ?? 0) & 0xff;
  return primary === CODE.BUSY || primary === CODE.LOCKED;
}

/** Makes a `DriverError` of what a client or the file system threw, by its code; others' bugs pass unchanged. */
export function asDriverError(error: unknown, file: string): unknown {
  if (error instanceof DriverError) return error;
  const number = resultCode(error);
  const { code } = (typeof error === "object" && error !== null ? error : {}) as { code?: unknown };
  const meaning =
    number === null
      ? FILE_MEANINGS.get(typeof code === "string" ? code : "")
      : (MEANINGS.get(number & 0xff) ?? UNNAMED);
  if (meaning === undefined) return error;
  const [kind, outcome, advice] = meaning;
  const shown = number === null ? String(code) : `SQLite ${number}`;
  return new DriverError(kind, outcome, `The lock file ${file}: ${advice} (${shown})`, {
    cause: error,
  });
}

const UNNAMED: Meaning = ["unavailable", "unknown", "SQLite refused the statement"];
