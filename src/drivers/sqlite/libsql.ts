/**
 * libsql through its native part. The package's own entry loads seven files, one of `ldd` and a whole `process.report`
 * to find that part, which takes longer than to take a lock and give it back. The part's functions are not libsql's
 * public interface, so they are called only in the version that this file was written for, where that is to be found by
 * its name; else the package is loaded as ever (ADR 0025).
 */
import { closeSync, existsSync, openSync, readFileSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import type { OpenDatabase, SqliteDatabase, SqliteStatement, SqliteValue } from "./client.ts";

/** The version of libsql whose native part is called here as its own entry calls it. */
const VERSION = "0.5.29";
/** Where a program names its loader: among its first bytes. */
const HEAD_BYTES = 4096;

type Args = Readonly<Record<string, SqliteValue>>;
type Bound = Args | readonly SqliteValue[];

/** The functions of the native part that are used, as far as they are; connections and statements are opaque. */
interface NativePart {
  databaseOpen(
    path: string,
    authToken: string,
    cipher: string,
    key: string,
    timeoutS: number,
    remoteKey: string,
  ): object;
  databaseInTransaction(db: object): boolean;
  databaseExecSync(this: object, text: string): void;
  databasePrepareSync(this: object, text: string): object;
  databaseClose(this: object): void;
  statementGet(this: object, values: Bound): unknown;
  statementRun(this: object, values: Bound): { readonly changes: number };
  statementRowsSync(this: object, values: Bound): object;
  /** Writes the next rows to a list, as many as it has places for. */
  rowsNext(this: object, rows: unknown[]): void;
}

/** Rows that are fetched at once, as libsql's entry does. */
const ROWS = 100;

/** The way to libsql that is the shorter one. Rejects with what Node says where there is none. */
export async function loadLibsql(): Promise<OpenDatabase> {
  const part = nativePart(import.meta.dirname);
  if (part !== null) return (path) => new NativeDatabase(part, path);
  const { default: Database } = (await import("libsql")) as unknown as {
    readonly default: new (path: string) => SqliteDatabase;
  };
  return (path) => new Database(path);
}

/** The native part that a module in this folder finds, in the known version; `null` where it finds none. */
export function nativePart(from: string): NativePart | null {
  const platform = platformName();
  if (platform === null) return null;
  try {
    const folder = packageFolder(`@libsql/${platform}`, from);
    if (folder === null) return null;
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
      readonly version?: unknown;
    };
    if (version !== VERSION) return null;
    const module = { exports: {} };
    process.dlopen(module, join(folder, "index.node"));
    return module.exports as NativePart;
  } catch {
    // Another make of package, or not to be loaded: libsql's entry says why.
    return null;
  }
}

/** Where a package is, as Node looks for it, which by itself takes as long as to load the native part. */
function packageFolder(name: string, from: string): string | null {
  const folder = join(from, "node_modules", name);
  if (existsSync(folder)) return folder;
  const above = dirname(from);
  return above === from ? null : packageFolder(name, above);
}

/** As libsql names this platform; `null` where that is left to its own entry. */
function platformName(): string | null {
  const { platform, arch, execPath } = process;
  if (platform === "darwin") return `darwin-${arch}`;
  const libc = platform === "linux" ? libcOf(execPath) : null;
  return libc === null ? null : `linux-${arch}-${libc}`;
}

/** Whose dynamic loader a program names; `null` where that is not to be seen. */
function libcOf(program: string): "gnu" | "musl" | null {
  const head = Buffer.alloc(HEAD_BYTES);
  try {
    const file = openSync(program, "r");
    try {
      readSync(file, head);
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
  if (head.includes("/ld-musl-")) return "musl";
  return head.includes("/ld-linux") ? "gnu" : null;
}

/** A connection, as libsql's entry makes one. */
class NativeDatabase implements SqliteDatabase {
  readonly #part: NativePart;
  readonly #db: object;

  constructor(part: NativePart, path: string) {
    this.#part = part;
    this.#db = part.databaseOpen(path, "", "aes256cbc", "", 0, "");
  }

  get inTransaction(): boolean {
    return this.#part.databaseInTransaction(this.#db);
  }

  prepare(text: string): SqliteStatement {
    return new NativeStatement(this.#part, this.#part.databasePrepareSync.call(this.#db, text));
  }

  exec(text: string): void {
    this.#part.databaseExecSync.call(this.#db, text);
  }

  close(): void {
    this.#part.databaseClose.call(this.#db);
  }
}

/** Values by name in one object, in order in one list, or in order one by one: libsql's entry takes all three. */
type Values = readonly [Args | readonly SqliteValue[]] | readonly SqliteValue[];

function bound(values: Values): Bound {
  const [first] = values;
  return typeof first === "object" && first !== null ? first : (values as readonly SqliteValue[]);
}

class NativeStatement implements SqliteStatement {
  readonly #part: NativePart;
  readonly #statement: object;

  constructor(part: NativePart, statement: object) {
    this.#part = part;
    this.#statement = statement;
  }

  get(...values: Values): unknown {
    return this.#part.statementGet.call(this.#statement, bound(values));
  }

  run(...values: Values): { readonly changes: number } {
    return this.#part.statementRun.call(this.#statement, bound(values));
  }

  all(...values: Values): readonly unknown[] {
    const rows = this.#part.statementRowsSync.call(this.#statement, bound(values));
    const found: unknown[] = [];
    for (;;) {
      const next: unknown[] = Array.from({ length: ROWS });
      this.#part.rowsNext.call(rows, next);
      const end = next.indexOf(undefined);
      if (end >= 0) return found.concat(next.slice(0, end));
      found.push(...next);
    }
  }
}
