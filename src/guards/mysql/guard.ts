import { type Duration, parseDuration, YEAR_MS } from "../../core/duration.ts";
import { BackendConfigError, InvalidArgumentError } from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import {
  type Adoption,
  type Credential,
  type Guard,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  type Resources,
  resourceList,
} from "../../core/guard.ts";
import { checkAdoption, purgeTime } from "../../core/guard-decision.ts";
import { checkName } from "../../core/lock-name.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import {
  type ConnectionOf,
  checkConnection,
  checkPool,
  type MysqlConnection,
  type MysqlPool,
  query,
} from "./client.ts";
import { failure, isMissingTable } from "./errors.ts";
import {
  type ClaimFragment,
  type FenceColumns,
  type FenceValues,
  fragmentsFor,
  type SqlFragment,
} from "./predicate.ts";
import { FORMAT, mysqlGuardSchema, type Statements, statementsFor } from "./sql.ts";
import { adoptOne, claimAll, purgeOld, verifyAll } from "./steps.ts";
import { repeated } from "./transaction.ts";

/** Options of a MySQL or MariaDB guard. */
export interface MysqlGuardOptions extends GuardOptions {
  /** Where the entries are: `"table"` or `"database.table"`, `"ringfence_guard"` by default. The floors are in `<table>_floors`. */
  readonly table?: string;
  /** Creates the tables at the first use, the default. With `false` they must exist: see `mysqlGuardSchema`. */
  readonly autoCreate?: boolean;
  /** Names of the fence columns for `predicate`, `claimPredicate` and `fenceValues`. */
  readonly columns?: FenceColumns;
  /**
   * For how long at most a transaction may stand still, and so keep successors out, when its credential has no deadline
   * here (a sequencer, a bare pair): 1 ms to a year, `"30s"` by default. For a lease it is what the lease has left. The
   * database counts whole seconds, rounded up.
   */
  readonly patience?: Duration;
}

/**
 * A guard over a pool of `mysql2/promise`. `run`, `claim`, `execute`, `adopt` and `purge` open a READ COMMITTED
 * transaction of their own; `verify` works in one of yours.
 */
export interface MysqlGuard extends Guard<MysqlPool, MysqlConnection> {
  /** As `Guard.run`; the body gets the pool's connection and must not end the transaction. A timeout ends it with the lease. */
  run<T, P extends MysqlPool>(
    db: P,
    resources: Resources,
    credential: Credential,
    fn: (tx: ConnectionOf<P>) => Promise<T>,
  ): Promise<T>;
  /**
   * Verifies, and runs one statement in the same transaction: an INSERT, a DELETE, an UPDATE of many rows. Returns its
   * rows, and how many it returned or matched. The resources must have been claimed.
   * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError, InvalidArgumentError, BackendError, and what the statement throws
   */
  execute(
    db: MysqlPool,
    resources: Resources,
    credential: Credential,
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly unknown[]; readonly count: number }>;
  /**
   * A condition on a row with its own fence columns: true while the row has the holder's pair. An UPDATE or DELETE with
   * it that changes no row was refused. Never put it into a sub-select.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  predicate(credential: Credential): SqlFragment;
  /**
   * A condition with which an UPDATE claims the row that it writes: for updates that depend on nothing read before.
   * Rows whose token is NULL are free to claim. Its `set` belongs into the same UPDATE.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  claimPredicate(credential: Credential): ClaimFragment;
  /**
   * Columns and values with which new rows are born fenced. They decide nothing: insert in `run` or after `verify`.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  fenceValues(credential: Credential): FenceValues;
}

/**
 * Makes a guard over MySQL 8 or MariaDB 10.6 and later.
 * @throws InvalidArgumentError for impossible options
 */
export function mysqlGuard(options: MysqlGuardOptions = {}): MysqlGuard {
  return new TheGuard(options);
}

class TheGuard implements MysqlGuard {
  readonly #read: (credential: Credential) => Presentation;
  readonly #table: string;
  readonly #sql: Statements;
  readonly #autoCreate: boolean;
  readonly #prepared = new WeakMap<object, Promise<void>>();
  readonly #fragments: ReturnType<typeof fragmentsFor>;
  readonly #patienceMs: number;

  constructor(options: MysqlGuardOptions) {
    const keys = guardKeys(options);
    this.#read = (credential) => presentationOf(credential, keys, systemMac);
    this.#table = options.table ?? "ringfence_guard";
    this.#sql = statementsFor(this.#table);
    this.#autoCreate = options.autoCreate ?? true;
    this.#fragments = fragmentsFor(options.columns ?? {});
    const bounds = { min: 1, max: YEAR_MS };
    this.#patienceMs = parseDuration("patience", options.patience ?? "30s", bounds);
  }

  async run<T, P extends MysqlPool>(
    db: P,
    resources: Resources,
    credential: Credential,
    fn: (tx: ConnectionOf<P>) => Promise<T>,
  ): Promise<T> {
    const [list, mine] = [resourceList(resources), this.#read(credential)];
    if (typeof (fn as unknown) !== "function")
      throw new InvalidArgumentError("Expected the transaction's body to be a function.");
    return await this.#transaction(db, mine, async (tx) => {
      await claimAll(tx, this.#sql, list, mine);
      return await fn(tx as ConnectionOf<P>);
    });
  }

  async claim(db: MysqlPool, resources: Resources, credential: Credential): Promise<void> {
    const [list, mine] = [resourceList(resources), this.#read(credential)];
    await this.#transaction(db, mine, async (tx) => claimAll(tx, this.#sql, list, mine));
  }

  async verify(tx: MysqlConnection, resources: Resources, credential: Credential): Promise<void> {
    const [list, mine] = [resourceList(resources), this.#current(credential)];
    checkConnection(tx);
    await verifyAll(tx, this.#sql, list, mine);
  }

  async execute(
    db: MysqlPool,
    resources: Resources,
    credential: Credential,
    text: string,
    values: readonly unknown[] = [],
  ): Promise<{ readonly rows: readonly unknown[]; readonly count: number }> {
    const [list, mine] = [resourceList(resources), this.#read(credential)];
    return await this.#transaction(db, mine, async (tx) => {
      await verifyAll(tx, this.#sql, list, mine);
      return await query(tx, text, values);
    });
  }

  async adopt(db: MysqlPool, resource: string, adoption: Adoption): Promise<void> {
    checkName(resource, "resource");
    checkAdoption(adoption);
    await this.#transaction(db, null, async (tx) => adoptOne(tx, this.#sql, resource, adoption));
  }

  async purge(db: MysqlPool, before: Date): Promise<number> {
    const time = purgeTime(before);
    return await this.#transaction(db, null, async (tx) => purgeOld(tx, this.#sql, time));
  }

  predicate(credential: Credential): SqlFragment {
    return this.#fragments.equal(this.#current(credential));
  }

  claimPredicate(credential: Credential): ClaimFragment {
    return this.#fragments.rising(this.#current(credential));
  }

  fenceValues(credential: Credential): FenceValues {
    return this.#fragments.born(this.#current(credential));
  }

  #current(credential: Credential): Presentation {
    const mine = this.#read(credential);
    mine.checkDeadline();
    return mine;
  }

  async #transaction<T>(
    db: MysqlPool,
    mine: Presentation | null,
    body: (tx: MysqlConnection) => Promise<T>,
  ): Promise<T> {
    mine?.checkDeadline();
    checkPool(db);
    await this.#prepare(db);
    return await repeated(db, { mine, limitMs: this.#patienceMs }, body);
  }

  /** The tables: looked at once per pool. */
  async #prepare(db: MysqlPool): Promise<void> {
    const known = this.#prepared.get(db);
    if (known !== undefined) {
      await known;
      return;
    }
    const preparing = this.#look(db);
    this.#prepared.set(db, preparing);
    try {
      await preparing;
    } catch (error) {
      // A server that was not there may be there next time.
      this.#prepared.delete(db);
      throw failure("open", error);
    }
  }

  async #look(db: MysqlPool): Promise<void> {
    const connection = await db.getConnection();
    try {
      const format = await query(connection, this.#sql.format).catch(async (error: unknown) => {
        if (!isMissingTable(error)) throw error;
        if (!this.#autoCreate)
          throw new BackendConfigError(
            `The guard's tables are missing. Create them with:\n${mysqlGuardSchema(this.#table)}`,
            { operation: "open", outcome: "not-applied", cause: error },
          );
        for (const statement of this.#sql.schema) await query(connection, statement);
        return await query(connection, this.#sql.format);
      });
      checkFormat(parseToken(format.rows[0]?.["token"]) ?? 0n);
    } finally {
      connection.release();
    }
  }
}

function checkFormat(format: bigint): void {
  if (format <= BigInt(FORMAT)) return;
  throw new BackendConfigError(
    `The guard's tables have format ${format.toString()}; this version knows ${FORMAT}. Update ringfence here.`,
    { operation: "open", outcome: "not-applied" },
  );
}
