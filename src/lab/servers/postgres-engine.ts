/**
 * What a PostgreSQL does around statements: transactions, row locks and those who wait for one, a log that is flushed or
 * not, notifications at commit. Statements are generators that yield where they have to wait.
 */
import { Disk, type Survival } from "../sim/disk.ts";
import { AdvisoryLocks, type Owner } from "./postgres-advisory.ts";
import { type Change, Versions } from "./postgres-rows.ts";

/** How a server is set up. */
export interface EngineSettings {
  /** What `synchronous_commit` is by default: with `off` a commit is told before it is in the log. */
  readonly synchronousCommit?: "on" | "off";
}

/** What the server has of its machine: its wall clock in whole microseconds, and timers. */
export interface EngineHost {
  micros(): number;
  timer(ms: number, fn: () => void): { cancel(): void };
}

/** What the server says when a statement fails. */
export class ServerComplaint extends Error {
  readonly code: string;
  readonly severity: "ERROR" | "FATAL";
  constructor(code: string, message: string, severity: "ERROR" | "FATAL" = "ERROR") {
    super(message);
    this.code = code;
    this.severity = severity;
  }
}

/** One transaction under way. */
export interface Transaction {
  readonly owner: Owner;
  /** When it began: what `now()` says until its end. */
  readonly began: number;
  readonly writes: Map<string, Change>;
  readonly rows: Set<string>;
  readonly notices: Map<string, { readonly channel: string; readonly payload: string }>;
  /** What all its statements see; `null` where each sees what is committed as it starts. */
  snapshot: number | null;
  repeatable: boolean;
  sync: string;
  lockTimeoutMs: number;
  idleTimeoutMs: number;
  /** It has written to the locks: nobody gets the table for himself before its end. */
  wroteLocks: boolean;
  hasTable: boolean;
  /** It has put something in the log. */
  logged: boolean;
}

/** What a statement waits for. */
export interface Wait {
  readonly tx: Transaction;
  /** A row, or "" for the table of locks. */
  readonly row: string;
  /** Whether the row is to be this transaction's then, or only free for a look. */
  readonly take: boolean;
  wake: () => void;
}

/** A record of the log: changes of a commit, or how far the sequence may be used without another record. */
export type LogRecord = { readonly changes: readonly Change[] } | { readonly sequence: bigint };

/** How many numbers the sequence may give for one record in the log: those not given are skipped after a crash. */
const SEQUENCE_AHEAD = 32n;
/** How often the log is flushed when no commit asks for it, in milliseconds. */
const WAL_WRITER_MS = 200;

/** One server's memory and log, without its sessions. */
export class Engine {
  versions: Versions = new Versions();
  readonly log: Disk<LogRecord>;
  readonly advisory: AdvisoryLocks = new AdvisoryLocks();
  readonly host: EngineHost;
  readonly settings: EngineSettings;
  readonly #holders = new Map<string, Transaction>();
  readonly #waits: Wait[] = [];
  readonly #open = new Set<Transaction>();
  /** Messages under way: all but the one that commits may still look at what was there when they started. */
  looking = 0;
  #last = 0n;
  #ahead = 0n;
  #flushPlanned = false;
  /** Who is told of a commit: its changes, with what was there before. */
  onCommit: (changes: readonly Change[], before: readonly (Change["row"] | undefined)[]) => void =
    () => undefined;
  /** Where notifications go. */
  onNotify: (channel: string, payload: string) => void = () => undefined;
  /** Where records of the log go, in order. */
  onLog: (record: LogRecord) => void = () => undefined;

  constructor(host: EngineHost, settings: EngineSettings = {}) {
    this.host = host;
    this.log = new Disk();
    this.settings = settings;
  }

  begin(owner: Owner, lockTimeoutMs: number): Transaction {
    const tx: Transaction = {
      owner,
      began: this.host.micros(),
      writes: new Map(),
      rows: new Set(),
      notices: new Map(),
      snapshot: null,
      repeatable: false,
      sync: this.settings.synchronousCommit ?? "on",
      lockTimeoutMs,
      idleTimeoutMs: 0,
      wroteLocks: false,
      hasTable: false,
      logged: false,
    };
    this.#open.add(tx);
    return tx;
  }

  /** Makes it permanent and visible, tells those who listen, and lets those go on who waited. */
  commit(tx: Transaction): void {
    const changes = [...tx.writes.values()];
    const before = changes.map(({ table, id }) => this.versions.get(table, id));
    if (changes.length > 0) {
      this.versions.add(changes, this.looking > 1 || this.#anySnapshot(tx));
      this.#append({ changes });
      tx.logged = true;
    }
    if (tx.logged && tx.sync !== "off") this.log.sync();
    else if (tx.logged) this.#flushLater();
    const wakes = this.#end(tx);
    if (changes.length > 0) this.onCommit(changes, before);
    for (const { channel, payload } of tx.notices.values()) this.onNotify(channel, payload);
    for (const { wake } of wakes) wake();
  }

  rollback(tx: Transaction): void {
    if (!this.#open.has(tx)) return;
    for (const { wake } of this.#end(tx)) wake();
  }

  /** The next number of the sequence. It is no part of any transaction: a rollback does not give it back. */
  nextval(tx: Transaction): bigint {
    this.#last += 1n;
    if (this.#last > this.#ahead) {
      this.#ahead = this.#last + SEQUENCE_AHEAD;
      this.#append({ sequence: this.#ahead });
      tx.logged = true;
    }
    return this.#last;
  }

  get lastValue(): bigint {
    return this.#last;
  }

  /** Whether another transaction has the row. */
  heldByOther(tx: Transaction, row: string): boolean {
    const holder = this.#holders.get(row);
    return holder !== undefined && holder !== tx;
  }

  /** Whether another transaction has not only locked the row. */
  writtenByOther(tx: Transaction, row: string): boolean {
    const holder = this.#holders.get(row);
    return holder !== undefined && holder !== tx && holder.writes.has(row);
  }

  take(tx: Transaction, row: string): void {
    this.#holders.set(row, tx);
    tx.rows.add(row);
  }

  /** Whether the table of locks is another's, or another waits to have it for himself. */
  tableTaken(tx: Transaction, alone: boolean): boolean {
    for (const other of this.#open)
      if (other !== tx && (other.hasTable || (alone && other.wroteLocks))) return true;
    return !alone && this.#waits.some((wait) => wait.row === "" && wait.take && wait.tx !== tx);
  }

  wait(wait: Wait): void {
    this.#waits.push(wait);
  }

  /** Gives a wait up. */
  forget(wait: Wait): void {
    this.#drop(wait);
    // Behind one who gives up the table others may have waited for nothing else.
    if (wait.row === "" && wait.take) for (const { wake } of this.#wakeTable()) wake();
  }

  /** Whether a transaction waits for itself, by way of others. */
  inCircle(tx: Transaction): boolean {
    const seen = new Set<Transaction>();
    let next: Transaction | undefined = tx;
    while (next !== undefined && !seen.has(next)) {
      seen.add(next);
      const wait = this.#waits.find((each) => each.tx === next);
      next = wait === undefined || wait.row === "" ? undefined : this.#holders.get(wait.row);
      if (next === tx) return true;
    }
    return false;
  }

  /** Takes what is left after the server died: the log, as far as it was flushed. All sessions are gone. */
  recover(survival: Survival): void {
    this.replay(this.log.recover(survival === "page-cache" ? "synced" : survival));
    this.#open.clear();
    this.#waits.length = 0;
    this.#holders.clear();
    this.advisory.clear();
    this.looking = 0;
  }

  /** Begins anew from a log: after a crash, or as the standby that had received it. */
  replay(records: readonly LogRecord[]): void {
    this.versions = new Versions();
    this.#last = 0n;
    for (const record of records)
      if ("sequence" in record) this.#last = record.sequence;
      else this.versions.add(record.changes, false);
    this.#ahead = this.#last;
  }

  #anySnapshot(but: Transaction): boolean {
    for (const tx of this.#open) if (tx !== but && tx.snapshot !== null) return true;
    return false;
  }

  #append(record: LogRecord): void {
    this.log.append(record);
    this.onLog(record);
  }

  #flushLater(): void {
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    this.host.timer(WAL_WRITER_MS, () => {
      this.#flushPlanned = false;
      this.log.sync();
    });
  }

  #drop(wait: Wait): void {
    const at = this.#waits.indexOf(wait);
    if (at >= 0) this.#waits.splice(at, 1);
  }

  /** Lets go of what it had; who goes on now is returned. */
  #end(tx: Transaction): readonly Wait[] {
    this.#open.delete(tx);
    const wakes: Wait[] = [];
    for (const row of tx.rows) {
      this.#holders.delete(row);
      for (const wait of this.#waits) {
        if (wait.row !== row) continue;
        wakes.push(wait);
        if (!wait.take) continue;
        // The first in line has it from now on, before anybody who comes later.
        this.take(wait.tx, row);
        break;
      }
    }
    for (const wait of wakes) this.#drop(wait);
    return tx.hasTable || tx.wroteLocks ? [...wakes, ...this.#wakeTable()] : wakes;
  }

  /** All who wait for the table look again. */
  #wakeTable(): readonly Wait[] {
    const waits = this.#waits.filter(({ row }) => row === "");
    for (const wait of waits) this.#drop(wait);
    return waits;
  }
}
