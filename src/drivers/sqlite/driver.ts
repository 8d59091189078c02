/**
 * Locks in one SQLite file, for the processes of one host.
 *
 * - Layout: a row for each name (`locks`) with its exclusive holder, its counters and a state; `shares` for shared
 *   leases and permits; `waiters` in order of arrival; `tombs` for grant ids that must not be granted (again); `meta`
 *   with format, clock identity and the table-wide token floor. State 0 says that a name has nothing but counters.
 * - The atomic step: one conditional statement where nobody contends, else one transaction that holds SQLite's write
 *   lock from its beginning. There is one writer at a time, so every step sees all that was committed before it.
 * - Exclusion: a grant is written only where no holder stands whose end, plus lock-delay, lies ahead. Ends are times of
 *   CLOCK_MONOTONIC, which the holder counts on as well, from an earlier moment and with a margin. Each step compares
 *   boot and time namespace with `meta`: only processes that read one and the same clock ever judge an end.
 * - Tokens: max(counter + 1, floor + 1, wall clock in µs), written by the granting step. A released name's row becomes
 *   part of the floor after at most a minute, or a thousand releases. With `synchronous=NORMAL` a power loss may undo
 *   the last commits; numbers still rise then unless the wall clock also went back.
 * - Order: a free lock is offered to the oldest live waiter for min(its ttl, 3 s), by rows that any asker brings up to
 *   date; a doorbell file wakes that process, and polls find what a lost ring did not tell.
 * - The file: deleted or replaced is noticed at the next step by device and inode. Then everything here is lost; the
 *   new file's tokens begin at the wall clock. Who has the old file open and does not step learns it at its deadline.
 * - What breaks it: one file under two kernels at once (refused on network file systems, not visible on 9p or FUSE),
 *   a copy of the file put in its place and out again between two steps, a user's PRAGMA on a connection handed in.
 */
import { resolve } from "node:path";
import type { Backend, Driver, DriverContext } from "../../core/driver.ts";
import { show } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { SqliteBackend } from "./backend.ts";
import type { SqliteDatabase } from "./client.ts";
import { asDriverError, isBusy } from "./errors.ts";
import { sqliteGuarantees } from "./guarantees.ts";
import { type Opened, openStore, type Source } from "./open-store.ts";
import {
  checkOptions,
  type Settings,
  type SqliteCapabilities,
  type SqliteDurableCapabilities,
  type SqliteOptions,
} from "./options.ts";
import { SYSTEM, type System } from "./system.ts";

/** Tries to open a file that others are just making, and the longest pause between two. */
const OPEN_TRIES = 40;
const OPEN_PAUSE_MS = 50;

/**
 * A driver for one SQLite file. Give it a path, or a connection of `node:sqlite`, libsql or better-sqlite3 that nothing
 * else uses. A path is opened (folder mode 0700, file mode 0600 when new) at the first use, with `node:sqlite` where
 * Node has it, else with the package `libsql`; a connection that you made is yours to close.
 *
 * It excludes the processes of one host, not of several: network file systems are refused.
 * @throws InvalidArgumentError for an unknown option, an impossible value, or `":memory:"`
 */
export function sqliteDriver(
  source: string | SqliteDatabase,
  options: SqliteOptions & { readonly durability: "full" },
): Driver<SqliteDurableCapabilities>;
export function sqliteDriver(
  source: string | SqliteDatabase,
  options?: SqliteOptions & { readonly durability?: "normal" },
): Driver<SqliteCapabilities>;
export function sqliteDriver(
  source: string | SqliteDatabase,
  options: SqliteOptions = {},
): Driver<SqliteCapabilities | SqliteDurableCapabilities> {
  return sqliteDriverOn(SYSTEM, source, options);
}

/** `sqliteDriver` on a machine that may be a simulated one. */
export function sqliteDriverOn(
  system: System,
  source: string | SqliteDatabase,
  options: SqliteOptions = {},
): Driver<SqliteCapabilities | SqliteDurableCapabilities> {
  const settings = checkOptions(options);
  // Resolved now: the process may change its folder before the first use.
  const target = typeof source === "string" ? resolve(checkPath(source)) : checkDb(source);
  return {
    name: "sqlite",
    fencing: settings.durability === "full" ? "durable" : "volatile",
    waiting: "queue",
    liveness: "ttl",
    clock: "host-monotonic",
    modes: ["exclusive", "shared", "permits"],
    ttl: { minMs: 100, stepMs: 1 },
    mints: "at-grant",
    transfer: "same-host",
    retains: "yes",
    guarantees: (findings) => sqliteGuarantees(findings, settings.durability === "full"),
    open: async (context) => await open(target, settings, context, system),
  };
}

async function open(
  target: string | SqliteDatabase,
  settings: Settings,
  context: DriverContext,
  system: System,
): Promise<Backend> {
  const handed = typeof target !== "string";
  const loaded = handed && context.host.bootId !== null ? undefined : await system.load();
  const source: Source = handed
    ? { kind: "db", db: target, open: loaded?.open, system }
    : { kind: "path", path: target, open: (loaded ?? (await system.load())).open, system };
  const opened = await openPatiently(source, settings, context);
  return new SqliteBackend({
    source,
    settings,
    context,
    opened,
    client: handed ? "handed in" : (loaded?.name ?? ""),
  });
}

/** Opening is the one thing that waits: until there is a backend, core has nothing to ask again. */
async function openPatiently(
  source: Source,
  settings: Settings,
  context: DriverContext,
): Promise<Opened> {
  for (let tries = 1; ; tries += 1) {
    try {
      return openStore(source, settings, context, false);
    } catch (error) {
      const label = source.kind === "path" ? source.path : "handed in";
      if (!isBusy(error) || tries === OPEN_TRIES) throw asDriverError(error, label);
    }
    const pauseMs = OPEN_PAUSE_MS * context.random.unit();
    await new Promise<void>((done) => {
      context.clock.timer(pauseMs, done, true);
    });
  }
}

function checkPath(path: string): string {
  const why =
    path === ""
      ? "a path"
      : path.startsWith(":memory:")
        ? "a file: a database in memory excludes nobody. Use memoryDriver() for one process"
        : /^file:/i.test(path)
          ? "a plain path, no URI"
          : path.includes("\0")
            ? "a path without NUL"
            : null;
  if (why === null) return path;
  throw new InvalidArgumentError(
    `Expected the path of the lock file to be ${why}, got ${show(path)}.`,
  );
}

function checkDb(db: unknown): SqliteDatabase {
  const { prepare, exec, close } = (db ?? {}) as Record<string, unknown>;
  if ([prepare, exec, close].every((method) => typeof method === "function"))
    return db as SqliteDatabase;
  throw new InvalidArgumentError(
    `Expected sqliteDriver to get a path or a connection of node:sqlite, libsql or better-sqlite3, got ${show(db)}.`,
  );
}
