import type { SqliteDatabase, SqliteStatement } from "../../drivers/sqlite/client.ts";
import { statements } from "../../drivers/sqlite/sql.ts";
import { Disk, type Survival } from "../sim/disk.ts";
import type { SimProcess } from "../sim/process.ts";
import { MODEL } from "./sqlite-statements.ts";
import { type Args, type Change, type Model, type Outcome, Tables } from "./sqlite-tables.ts";

const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
/** Commits between two checkpoints: what brings the log to the disk where commits do not. */
const CHECKPOINT_COMMITS = 250;
const LEVELS = ["OFF", "NORMAL", "FULL", "EXTRA"];

const NAMES: ReadonlyMap<string, string> = new Map(
  Object.values(statements("ringfence_")).flatMap((sql: string | { name: string; text: string }) =>
    typeof sql === "string" ? [] : [[sql.text, sql.name] as const],
  ),
);

/** What goes wrong with the next commit. */
export type CommitFault =
  /** The disk fails, and nothing of it is there. */
  | "fails"
  /** The disk fails when it is in the log already. */
  | "fails, applied"
  /** Its process dies before it. */
  | "dies";

/** An error as libsql makes it. */
class ModelError extends Error {
  readonly code = "SQLITE_ERROR";
  readonly rawCode: number;
  constructor(rawCode: number, message: string) {
    super(message);
    this.rawCode = rawCode;
  }
}

/**
 * A database file in WAL mode: one writer at a time, whole transactions, and a log behind the page cache. A commit
 * survives the death of every process; a power loss takes those commits that no sync has followed. `FULL` syncs with
 * every commit, `NORMAL` at checkpoints.
 */
export class SqliteFile {
  readonly tables: Tables = new Tables();
  /** A disk that lies says that it synced, and did not. */
  lies = false;
  /** The process that was stopped in the middle of a transaction: nobody else gets in. */
  stoppedWriter: SimProcess | null = null;
  /** Somebody else writes, for as long as this is set. */
  isBusy = false;
  /** Whose transaction is open. */
  writer: SqliteConnection | null = null;
  /** What happens at the next commit of a step. */
  nextFault: CommitFault | null = null;
  /** What each statement does, by its name. */
  readonly model: Readonly<Record<string, Model>>;
  readonly #disk = new Disk<readonly Change[]>();
  #commits = 0;

  constructor(model: Readonly<Record<string, Model>> = MODEL) {
    this.model = model;
  }

  /** Commits that a power loss may take. */
  get unsynced(): number {
    return this.#disk.unsynced;
  }

  /** `die`: how the process ends when a fault says so. */
  connect(process: SimProcess, die: () => void): SqliteConnection {
    return new SqliteConnection(this, process, die);
  }

  /** The power goes: `written` of the commits that were not synced are there all the same, the oldest ones. */
  loseMemory(survival: Survival, written = 0): void {
    this.writer = null;
    this.stoppedWriter = null;
    this.nextFault = null;
    this.isBusy = false;
    this.tables.clear();
    for (const changes of this.#disk.recover(survival, written)) this.tables.redo(changes);
  }

  /** @throws ModelError when another one is in the middle of a transaction */
  admit(connection: SqliteConnection): void {
    const { stoppedWriter } = this;
    if (stoppedWriter !== null && !(stoppedWriter.alive && stoppedWriter.stopped))
      this.stoppedWriter = null;
    const open = this.writer !== null && this.writer !== connection;
    if (open || this.isBusy || this.stoppedWriter !== null)
      throw new ModelError(SQLITE_BUSY, "database is locked");
  }

  commit(sync: boolean): void {
    const changes = this.tables.commit();
    if (changes.length === 0) return;
    this.#disk.append(changes);
    this.#commits += 1;
    if ((sync || this.#commits % CHECKPOINT_COMMITS === 0) && !this.lies) this.#disk.sync();
  }
}

/** One process's connection: the `SqliteDatabase` that the driver is given, which answers each statement by its name. */
export class SqliteConnection implements SqliteDatabase {
  inTransaction = false;
  readonly #file: SqliteFile;
  readonly #process: SimProcess;
  readonly #die: () => void;
  readonly #settings = new Map<string, string | number>([
    ["journal_mode", "delete"],
    ["synchronous", 2],
  ]);

  constructor(file: SqliteFile, process: SimProcess, die: () => void) {
    this.#file = file;
    this.#process = process;
    this.#die = die;
  }

  prepare(text: string): SqliteStatement {
    const run = this.#meaning(text);
    const rows = (args: Args): readonly object[] => {
      const outcome = run(args);
      return typeof outcome === "number" ? [] : outcome;
    };
    return {
      get: (args) => rows(args)[0],
      all: rows,
      run: (args) => {
        const outcome = run(args);
        return { changes: typeof outcome === "number" ? outcome : outcome.length };
      },
    };
  }

  exec(text: string): void {
    this.#meaning(text)({});
  }

  close(): void {
    if (this.inTransaction) this.#end();
  }

  #meaning(text: string): (args: Args) => Outcome {
    const name = NAMES.get(text);
    const model = name === undefined ? undefined : this.#file.model[name];
    if (model !== undefined) return (args) => this.#step(model, args);
    if (text.startsWith("BEGIN")) return () => this.#begin();
    if (text === "COMMIT") return () => this.#commit();
    if (text === "ROLLBACK") return () => this.#end();
    if (text.startsWith("PRAGMA ")) return () => this.#pragma(text.slice("PRAGMA ".length));
    if (text.startsWith("CREATE ")) return () => 0;
    if (text.startsWith("INSERT INTO ringfence_meta ")) return () => this.#step(makeMeta, {});
    throw new Error(`The model of SQLite does not know this statement: ${text}`);
  }

  #pragma(text: string): Outcome {
    const [name = "", value] = text.split("=").map((part) => part.trim());
    if (name === "database_list") return [{ seq: 0, name: "main", file: "" }];
    if (value !== undefined) {
      const level = LEVELS.indexOf(value);
      this.#settings.set(name, name === "synchronous" ? level : value.toLowerCase());
    }
    return [{ [name]: this.#settings.get(name) ?? 0 }];
  }

  #step(model: Model, args: Args): Outcome {
    this.#mustLive();
    this.#file.admit(this);
    const outcome = model(this.#file.tables, args);
    // Reads change nothing, and have nothing to lose.
    if (!this.inTransaction && this.#file.tables.dirty) this.#commit();
    return outcome;
  }

  get #syncs(): boolean {
    return Number(this.#settings.get("synchronous")) >= 2;
  }

  #begin(): Outcome {
    this.#mustLive();
    this.#file.admit(this);
    this.#file.writer = this;
    this.inTransaction = true;
    return 0;
  }

  #commit(): Outcome {
    this.#mustLive();
    const { nextFault } = this.#file;
    this.#file.nextFault = null;
    if (nextFault === "dies") this.#die();
    if (nextFault !== "dies" && nextFault !== "fails") this.#file.commit(this.#syncs);
    this.#end();
    this.#mustLive();
    if (nextFault !== null) throw new ModelError(SQLITE_IOERR, "disk I/O error");
    return 0;
  }

  #end(): Outcome {
    this.#file.tables.rollback();
    if (this.#file.writer === this) this.#file.writer = null;
    this.inTransaction = false;
    return 0;
  }

  /** What a dead process does has no effect; its promises may still run to their next step. */
  #mustLive(): void {
    if (this.#process.alive) return;
    if (this.inTransaction) this.#end();
    throw new ModelError(SQLITE_IOERR, "the process is dead");
  }
}

const makeMeta: Model = (tables) => {
  if (tables.get("meta", "1") !== undefined) return 0;
  tables.put("meta", "1", { format: 1, boot: null, clock: null, floor: 0n });
  return 1;
};
