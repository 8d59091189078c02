import { BackendConfigError } from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import {
  type Answer,
  type Database,
  databaseOf,
  type PostgresDatabase,
  type Session,
} from "./client.ts";
import { failure, isMissingTable } from "./errors.ts";
import { FORMAT, type Statements } from "./sql.ts";
import type { Timeouts } from "./transaction.ts";

/** A database whose tables are there, and the timeouts that its sessions begin with. */
export interface Prepared {
  readonly database: Database;
  readonly timeouts: Timeouts;
}

/** The tables: looked at once per pool. */
export class Schema {
  readonly #sql: Statements;
  readonly #autoCreate: boolean;
  readonly #known = new WeakMap<object, Promise<Prepared>>();

  constructor(sql: Statements, autoCreate: boolean) {
    this.#sql = sql;
    this.#autoCreate = autoCreate;
  }

  /** @throws BackendConfigError for missing tables that may not be created, or a later format */
  async prepare(db: PostgresDatabase): Promise<Prepared> {
    const known = this.#known.get(db);
    if (known !== undefined) return await known;
    const preparing = this.#look(databaseOf(db));
    this.#known.set(db, preparing);
    try {
      return await preparing;
    } catch (error) {
      // A server that was not there may be there next time.
      this.#known.delete(db);
      throw error;
    }
  }

  async #look(database: Database): Promise<Prepared> {
    const timeouts = await this.#inTransaction(database, async (session) => {
      const answer = await session.query(SETTINGS);
      if (database.preparesCommit) checkDirect(answer);
      return timeoutsOf(answer);
    });
    try {
      await this.#inTransaction(database, async (session) => {
        const { rows } = await session.query(this.#sql.format);
        checkFormat(parseToken(rows[0]?.["token"]) ?? BigInt(FORMAT));
      });
    } catch (error) {
      if (!isMissingTable(error) || !this.#autoCreate) throw failure("open", error);
      await this.#inTransaction(database, async (session) => {
        await session.query(this.#sql.schema);
      }).catch((cause: unknown) => {
        throw failure("open", cause);
      });
    }
    return { database, timeouts };
  }

  async #inTransaction<T>(database: Database, body: (session: Session) => Promise<T>): Promise<T> {
    return await database.transaction({
      settings: "SET LOCAL client_min_messages = warning",
      body,
      interrupted: (error) => error,
      failed: (what, cause) => failure(what, cause),
    });
  }
}

/** @throws BackendConfigError where commits of this client can be lost without an error */
function checkDirect({ rows, toldPid }: Answer): void {
  if (toldPid === undefined || Number(rows[0]?.["pid"]) === toldPid) return;
  throw new BackendConfigError(
    "A pooler is in between, and this client prepares its COMMIT: one that meets another session of the server is repeated in a failed transaction, which ends as a ROLLBACK without an error. Make the client with `prepare: false`.",
    { operation: "open", outcome: "not-applied" },
  );
}

function ms(name: string): string {
  return `(extract(epoch FROM current_setting('${name}')::interval) * 1000)::bigint::text`;
}

const SETTINGS = `SELECT ${ms("lock_timeout")} AS lock, ${ms("statement_timeout")} AS statement, ${ms("idle_in_transaction_session_timeout")} AS idle, pg_backend_pid() AS pid`;

function timeoutsOf({ rows }: Answer): Timeouts {
  const of = (name: string): number => Number(rows[0]?.[name] ?? 0);
  return { lock: of("lock"), statement: of("statement"), idle: of("idle") };
}

function checkFormat(format: bigint): void {
  if (format <= BigInt(FORMAT)) return;
  throw new BackendConfigError(
    `The guard's tables have format ${format.toString()}; this version knows ${FORMAT}. Update ringfence here.`,
    { operation: "open", outcome: "not-applied" },
  );
}
