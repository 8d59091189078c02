import { type Duration, parseDuration, YEAR_MS } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
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
  type Answer,
  type PostgresDatabase,
  type PostgresTransaction,
  type Session,
  sessionOf,
  type TransactionOf,
} from "./client.ts";
import {
  type ClaimFragment,
  type FenceColumns,
  type FenceValues,
  fragmentsFor,
  type Numbering,
  type SqlFragment,
} from "./predicate.ts";
import { Schema } from "./schema.ts";
import { statementsFor } from "./sql.ts";
import { claimAll, firstClaim, own, verifyAll } from "./steps.ts";
import { leftMs, repeated } from "./transaction.ts";
import { adoptOne } from "./upkeep.ts";

/** Options of a PostgreSQL guard. */
export interface PostgresGuardOptions extends GuardOptions {
  /** Where the entries are: `"table"` or `"schema.table"`, `"ringfence_guard"` by default. The floors are in `<table>_floors`. */
  readonly table?: string;
  /** Creates the tables at the first use, the default. With `false` they must exist: see `postgresGuardSchema`. */
  readonly autoCreate?: boolean;
  /** Names of the fence columns for `predicate`, `claimPredicate` and `fenceValues`. */
  readonly columns?: FenceColumns;
  /**
   * For how long at most a transaction may stand still, and so keep successors out, when its credential has no deadline
   * here (a sequencer, a bare pair): 1 ms to a year, `"30s"` by default. For a lease it is what the lease has left.
   */
  readonly patience?: Duration;
}

/**
 * A guard over PostgreSQL through a `Pool` of `pg` or the `sql` of `postgres`. `run`, `claim`, `execute`, `adopt` and
 * `purge` open a READ COMMITTED transaction of their own; `verify` works in one of yours.
 */
export interface PostgresGuard extends Guard<PostgresDatabase, PostgresTransaction> {
  /** As `Guard.run`; the body gets the client's own transaction and must not end it. Timeouts end it with the lease. */
  run<T, D extends PostgresDatabase>(
    db: D,
    resources: Resources,
    credential: Credential,
    fn: (tx: TransactionOf<D>) => Promise<T>,
  ): Promise<T>;
  /**
   * Verifies, and runs one statement in the same transaction: an INSERT, a DELETE, an UPDATE of many rows. Returns the
   * rows that it returned, and how many it returned or changed. The resources must have been claimed.
   * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError, InvalidArgumentError, BackendError, and what the statement throws
   */
  execute(
    db: PostgresDatabase,
    resources: Resources,
    credential: Credential,
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly unknown[]; readonly count: number }>;
  /**
   * A condition on a row with its own fence columns: true while the row has the holder's pair. An UPDATE or DELETE with
   * it that changes no row was refused. Never put it into a sub-select: only the row that is written is looked at anew
   * after a wait.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  predicate(credential: Credential, numbering?: Numbering): SqlFragment;
  /**
   * A condition with which an UPDATE claims the row that it writes: for updates that depend on nothing read before.
   * Rows whose token is NULL are free to claim. Its `set` belongs into the same UPDATE.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  claimPredicate(credential: Credential, numbering?: Numbering): ClaimFragment;
  /**
   * Columns and values with which new rows are born fenced. They decide nothing: whether this holder may insert is
   * decided by the guard's table, so insert in `run` or after `verify`.
   * @throws LeaseLostError, LeaseReleasedError, InvalidArgumentError
   */
  fenceValues(credential: Credential, numbering?: Numbering): FenceValues;
}

/**
 * Makes a guard over PostgreSQL 13 or later.
 * @throws InvalidArgumentError for impossible options
 */
export function postgresGuard(options: PostgresGuardOptions = {}): PostgresGuard {
  return new TheGuard(options);
}

class TheGuard implements PostgresGuard {
  readonly #read: (credential: Credential) => Presentation;
  readonly #sql: ReturnType<typeof statementsFor>;
  readonly #schema: Schema;
  readonly #fragments: ReturnType<typeof fragmentsFor>;
  readonly #patienceMs: number;

  constructor(options: PostgresGuardOptions) {
    const keys = guardKeys(options);
    this.#read = (credential) => presentationOf(credential, keys, systemMac);
    this.#sql = statementsFor(options.table ?? "ringfence_guard");
    this.#schema = new Schema(this.#sql, options.autoCreate ?? true);
    this.#fragments = fragmentsFor(options.columns ?? {});
    const bounds = { min: 1, max: YEAR_MS };
    this.#patienceMs = parseDuration("patience", options.patience ?? "30s", bounds);
  }

  async run<T, D extends PostgresDatabase>(
    db: D,
    resources: Resources,
    credential: Credential,
    fn: (tx: TransactionOf<D>) => Promise<T>,
  ): Promise<T> {
    const [list, mine] = [resourceList(resources), this.#read(credential)];
    if (typeof (fn as unknown) !== "function")
      throw new InvalidArgumentError("Expected the transaction's body to be a function.");
    const body = async (session: Session, tx: unknown, first?: Promise<Answer>): Promise<T> => {
      await claimAll(session, this.#sql, list, mine, first);
      return await fn(tx as TransactionOf<D>);
    };
    return await this.#transaction(db, "run", mine, body, firstClaim(this.#sql, list, mine));
  }

  async claim(db: PostgresDatabase, resources: Resources, credential: Credential): Promise<void> {
    const [list, mine] = [resourceList(resources), this.#read(credential)];
    const body = async (session: Session, _tx: unknown, first?: Promise<Answer>): Promise<void> => {
      await claimAll(session, this.#sql, list, mine, first);
    };
    await this.#transaction(db, "claim", mine, body, firstClaim(this.#sql, list, mine));
  }

  async verify(
    tx: PostgresTransaction,
    resources: Resources,
    credential: Credential,
  ): Promise<void> {
    const [list, mine] = [resourceList(resources), this.#current(credential)];
    const session = sessionOf(tx);
    if (session.open() === false)
      throw new InvalidArgumentError(
        "Expected an open transaction for verify: it decides about the writes of that transaction.",
      );
    await verifyAll(session, this.#sql, list, { mine, leftMs: leftMs(mine, this.#patienceMs) });
  }

  async execute(
    db: PostgresDatabase,
    resources: Resources,
    credential: Credential,
    text: string,
    values: readonly unknown[] = [],
  ): Promise<{ readonly rows: readonly unknown[]; readonly count: number }> {
    const [list, mine] = [resourceList(resources), this.#read(credential)];
    return await this.#transaction(db, "execute", mine, async (session) => {
      const verified = { mine, leftMs: leftMs(mine, this.#patienceMs) };
      await verifyAll(session, this.#sql, list, verified);
      return await session.query(text, values as readonly string[]);
    });
  }

  async adopt(db: PostgresDatabase, resource: string, adoption: Adoption): Promise<void> {
    checkName(resource, "resource");
    checkAdoption(adoption);
    await this.#transaction(db, "adopt", null, async (session) => {
      await adoptOne(session, this.#sql, resource, adoption);
    });
  }

  async purge(db: PostgresDatabase, before: Date): Promise<number> {
    const time = purgeTime(before);
    return await this.#transaction(db, "purge", null, async (session) => {
      const { rows } = await own("purge", session.query(this.#sql.purge, [time.toString()]));
      return Number(rows[0]?.["count"]);
    });
  }

  predicate(credential: Credential, numbering?: Numbering): SqlFragment {
    return this.#fragments.equal(this.#current(credential), numbering);
  }

  claimPredicate(credential: Credential, numbering?: Numbering): ClaimFragment {
    return this.#fragments.rising(this.#current(credential), numbering);
  }

  fenceValues(credential: Credential, numbering?: Numbering): FenceValues {
    return this.#fragments.born(this.#current(credential), numbering);
  }

  #current(credential: Credential): Presentation {
    const mine = this.#read(credential);
    mine.checkDeadline();
    return mine;
  }

  async #transaction<T>(
    db: PostgresDatabase,
    operation: string,
    mine: Presentation | null,
    body: (session: Session, tx: unknown, first?: Promise<Answer>) => Promise<T>,
    first?: string,
  ): Promise<T> {
    mine?.checkDeadline();
    const { database, timeouts } = await this.#schema.prepare(db);
    const step = { operation, mine, limitMs: this.#patienceMs, timeouts, first };
    return await repeated(database, step, body);
  }
}
