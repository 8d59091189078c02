/*
 * A guard over SQLite, on the user's own connection.
 *
 * State: one row per resource, (token, grant id, scope, last use), and one per scope with the floor that missing rows
 * inherit, in the database that also has the guarded data.
 * Atomic step: every claim decides and writes inside BEGIN IMMEDIATE, so no other writer comes between. A verify
 * *updates* its row: in a transaction that began as a reader, SQLite then refuses a snapshot that is no longer the
 * newest (SQLITE_BUSY_SNAPSHOT), and nobody can claim until that transaction has ended.
 *   A: BEGIN, verify (a mere SELECT)          B: claim, read     A: write, COMMIT
 * is thereby impossible in every journal mode. Why pairs never come back: see `decideClaim`.
 * What breaks it: writes that do not verify; data in another database than the rows (an attached one included);
 * restoring an old copy of the file; a network file system on which SQLite's locks do not hold.
 * A process that is stopped inside its transaction keeps every other writer out until it goes on: SQLite has no
 * timeout for that. So bodies are short and synchronous, and long jobs claim first and verify in each write.
 */
import { BackendConfigError, InvalidArgumentError, RingfenceError } from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import {
  type Adoption,
  type Claim,
  type Credential,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  type Resources,
  resourceList,
  type SyncGuard,
} from "../../core/guard.ts";
import {
  checkAdoption,
  decideAdoption,
  decideClaim,
  decideVerify,
  purgeTime,
} from "../../core/guard-decision.ts";
import { checkName } from "../../core/lock-name.ts";
import { checkSyncBody, checkSyncResult } from "../../core/sync-body.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { isBusy, prepared, type SqliteConnection, transactionOpen } from "./client.ts";
import {
  type ClaimFragment,
  type FenceColumns,
  fragmentsFor,
  type SqlFragment,
} from "./predicate.ts";
import { FORMAT, type Statements, statementsFor } from "./sql.ts";
import { busy, failed, immediate, type Step } from "./transaction.ts";

/** Options of a SQLite guard. */
export interface SqliteGuardOptions extends GuardOptions {
  /** Where the entries are; `"ringfence_guard"` by default. The floors are in `<table>_floors`. */
  readonly table?: string;
  /** Creates the tables at the first use, the default. With `false` they must exist: see `sqliteGuardSchema`. */
  readonly autoCreate?: boolean;
  /** Names of the fence columns for `predicate` and `claimPredicate`. */
  readonly columns?: FenceColumns;
}

/**
 * A guard over connections of better-sqlite3, libsql or node:sqlite. The connection must not be the lock driver's.
 * `run`, `claim`, `adopt` and `purge` open a transaction of their own and wait, without blocking, while others write.
 */
export interface SqliteGuard extends SyncGuard<SqliteConnection, SqliteConnection> {
  run<T, C extends SqliteConnection>(
    db: C,
    resources: Resources,
    credential: Credential,
    fn: (tx: C) => T,
  ): Promise<Awaited<T>>;
  /**
   * A condition on a row with its own fence columns: true while the row has the holder's pair. An UPDATE or DELETE with
   * it that changes no row was refused. Inserts need the guard table; never put it into a sub-select.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  predicate(credential: Credential): SqlFragment;
  /**
   * A condition with which an UPDATE claims the row that it writes: for updates that depend on nothing read before.
   * Rows whose token is NULL are free to claim. Its `set` belongs into the same UPDATE.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  claimPredicate(credential: Credential): ClaimFragment;
}

/**
 * Makes a guard over SQLite.
 * @throws InvalidArgumentError for impossible options
 */
export function sqliteGuard(options: SqliteGuardOptions = {}): SqliteGuard {
  const keys = guardKeys(options);
  const sql = statementsFor(options.table ?? "ringfence_guard");
  const schema = new Schema(sql, options.autoCreate ?? true);
  const fragments = fragmentsFor(options.columns ?? {});
  const read = (credential: Credential): Presentation =>
    presentationOf(credential, keys, systemMac);
  const current = (credential: Credential): Presentation => {
    const mine = read(credential);
    mine.checkDeadline();
    return mine;
  };
  return {
    async run<T, C extends SqliteConnection>(
      db: C,
      resources: Resources,
      credential: Credential,
      fn: (tx: C) => T,
    ): Promise<Awaited<T>> {
      const [list, mine] = [resourceList(resources), read(credential)];
      checkSyncBody(fn);
      return await schema.immediate(db, stepOf("run", mine), () => {
        own("claim", () => {
          claimAll(db, sql, list, mine);
        });
        const result = fn(db);
        checkSyncResult(result);
        return result;
      });
    },
    async claim(db, resources, credential) {
      const [list, mine] = [resourceList(resources), read(credential)];
      await schema.immediate(db, stepOf("claim", mine), () => {
        own("claim", () => {
          claimAll(db, sql, list, mine);
        });
      });
    },
    verify(tx, resources, credential) {
      const [list, mine] = [resourceList(resources), current(credential)];
      own("verify", () => {
        verifyAll(tx, sql, schema, list, mine);
      });
    },
    async adopt(db, resource, adoption) {
      checkName(resource, "resource");
      checkAdoption(adoption);
      await schema.immediate(db, unbound("adopt"), () => {
        own("adopt", () => {
          adoptOne(db, sql, resource, adoption);
        });
      });
    },
    async purge(db, before) {
      const time = purgeTime(before);
      return schema.immediate(db, unbound("purge"), () =>
        own("purge", () => {
          prepared(db, sql.raiseOld).run([time]);
          return prepared(db, sql.deleteOld).run([time]);
        }),
      );
    },
    predicate: (credential) => fragments.equal(current(credential)),
    claimPredicate: (credential) => fragments.rising(current(credential)),
  };
}

/**
 * Runs the guard's own statements, whose failures become typed errors. SQLITE_BUSY is possible in a user's transaction
 * only: its snapshot is old, or somebody else writes, so it has to begin again (BEGIN IMMEDIATE waits for its turn).
 */
function own<T>(operation: string, statements: () => T): T {
  try {
    return statements();
  } catch (error) {
    if (error instanceof RingfenceError) throw error;
    throw isBusy(error) ? busy(operation, error) : failed(operation, "not-applied", error);
  }
}

function stepOf(operation: string, mine: Presentation): Step {
  return {
    operation,
    check: () => {
      mine.checkDeadline();
    },
    remainingMs: () => mine.remainingMs(),
  };
}

function unbound(operation: string): Step {
  return { operation, check: () => undefined, remainingMs: () => Infinity };
}

/** The tables: looked at once per connection. */
class Schema {
  readonly #sql: Statements;
  readonly #autoCreate: boolean;
  readonly #known = new WeakSet<SqliteConnection>();

  constructor(sql: Statements, autoCreate: boolean) {
    this.#sql = sql;
    this.#autoCreate = autoCreate;
  }

  async immediate<T>(db: SqliteConnection, step: Step, body: () => T): Promise<T> {
    const value = await immediate(db, step, () => {
      own("open", () => {
        this.prepare(db);
      });
      return body();
    });
    // Only now: a rollback would have taken new tables with it.
    this.#known.add(db);
    return value;
  }

  /** Inside a transaction: only its commit makes new tables known. */
  prepare(db: SqliteConnection): void {
    if (this.#known.has(db)) return;
    if (this.#autoCreate) db.exec(this.#sql.schema);
    else if (db.prepare(this.#sql.exists).all().length < 2)
      throw new BackendConfigError(
        `The guard's tables are missing. Create them with:\n${this.#sql.schema.trim()}`,
        { operation: "open", outcome: "not-applied" },
      );
    const format = tokenOf(db.prepare(this.#sql.format).all()[0]) ?? 0n;
    if (format > BigInt(FORMAT))
      throw new BackendConfigError(
        `The guard table "${this.#sql.table}" has format ${format.toString()}; this version knows ${FORMAT}. Update ringfence here.`,
        { operation: "open", outcome: "not-applied" },
      );
  }
}

function tokenOf(row: unknown): bigint | null {
  return parseToken((row as { readonly token?: unknown } | undefined)?.token);
}

function entryOf(db: SqliteConnection, sql: Statements, resource: string): Claim | null {
  const row = prepared(db, sql.entry).all([resource])[0];
  if (row === undefined) return null;
  const { token, grantId, scope } = row as { token: string; grantId: string; scope: string };
  // An adopted entry may have token 0, which nobody can present.
  return { token: BigInt(token), grantId, scope };
}

function floorOf(db: SqliteConnection, sql: Statements, scope: string): bigint {
  return tokenOf(prepared(db, sql.floor).all([scope])[0]) ?? 0n;
}

function install(db: SqliteConnection, sql: Statements, resource: string, claim: Claim): void {
  const { token, grantId, scope } = claim;
  prepared(db, sql.install).run([resource, token, grantId, scope, systemClock.wall()]);
}

/** A refusal rolls back all of it, so that a list is claimed as a whole or not at all. */
function claimAll(
  db: SqliteConnection,
  sql: Statements,
  list: readonly string[],
  mine: Presentation,
): void {
  const { token, grantId, scope } = mine;
  const claim = prepared(db, sql.claim);
  for (const resource of list) {
    const now = systemClock.wall();
    if (claim.run([token, grantId, now, resource, scope, token, token, grantId]) === 1) continue;
    decideClaim(
      resource,
      { entry: entryOf(db, sql, resource), floor: floorOf(db, sql, scope) },
      mine,
    );
    install(db, sql, resource, mine);
  }
}

function verifyAll(
  tx: SqliteConnection,
  sql: Statements,
  schema: Schema,
  list: readonly string[],
  mine: Presentation,
): void {
  if (transactionOpen(tx) === false)
    throw new InvalidArgumentError(
      "Expected an open transaction for verify: it decides about the writes of that transaction.",
    );
  schema.prepare(tx);
  for (const resource of list) verifyOne(tx, sql, resource, mine);
}

function verifyOne(db: SqliteConnection, sql: Statements, resource: string, mine: Claim): void {
  const { token, grantId, scope } = mine;
  const touched = prepared(db, sql.touch).run([
    systemClock.wall(),
    resource,
    token,
    grantId,
    scope,
  ]);
  // Even an UPDATE without a row took the write lock: what we read now is what refused us.
  if (touched !== 1) decideVerify(resource, entryOf(db, sql, resource), mine);
}

function adoptOne(
  db: SqliteConnection,
  sql: Statements,
  resource: string,
  adoption: Adoption,
): void {
  const standing = {
    entry: entryOf(db, sql, resource),
    floor: floorOf(db, sql, adoption.to),
  };
  const move = decideAdoption(resource, standing, adoption);
  if (move === null) return;
  if (move.leftFloor > 0n) prepared(db, sql.raise).run([adoption.from, move.leftFloor]);
  install(db, sql, resource, move.entry);
}
