/**
 * Locks in tables of a PostgreSQL database: the lease table.
 *
 * - Layout: a row for each lock with its exclusive lease; rows for what takes room beside one (shared leases, permits),
 *   for waiters in order of arrival, and for grant ids that must not be granted any more; one sequence for the tokens.
 * - The atomic step: where nobody contends one conditional statement, by itself a transaction. Everything else is a short
 *   READ COMMITTED transaction of ours that takes the lock's row first and looks afterwards, in two messages.
 * - Exclusion: a grant is written only by whoever has the row and saw no lease or lock-delay that runs, by
 *   `clock_timestamp()`. A holder counts its ttl from before its request was sent, so it gives up before the server does.
 * - Tokens: drawn from the sequence under the row's lock, or above what the row remembers if that is more, and committed
 *   before they are told, with `synchronous_commit` raised where the user has it off. A row is deleted only when its
 *   numbers are behind the sequence and no grant is under way.
 * - Order: a free lock is offered to the oldest live waiter for min(its ttl, 3 s); its process is told by NOTIFY, and
 *   polls in case that is lost. Behind a pooler it polls only.
 * - Late packets: no renewal and no repeated ask ends a lease sooner; a release that may be overtaken by an ask leaves a
 *   tombstone; the session of a statement that got no answer in time is destroyed.
 * - What breaks it: a step of the server's clock, an asynchronous standby that is promoted, fsync off, a restore. Then
 *   two may believe that they hold; only a guard at the resource keeps their effects apart.
 */
import type { Capabilities, Mode } from "../../core/capabilities.ts";
import {
  type Answer,
  type Ask,
  type Backend,
  type Driver,
  type DriverContext,
  DriverError,
  type Finding,
  type GoneReason,
  type Granted,
  type GrantRef,
  type Io,
  type LockRecord,
  type Release,
  type Renewal,
} from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";
import { listensSoon, polling } from "../sql/deaf.ts";
import { Places } from "../sql/places.ts";
import { CONNECT_TIMEOUT_MS } from "../sql/session.ts";
import { Sessions } from "../sql/sessions.ts";
import { Sweeper } from "../sql/sweeper.ts";
import { type Asking, attempt, exchange } from "./acquire.ts";
import { type Dialer, dialerOf, type PostgresClient } from "./client.ts";
import { type Connection, DATABASE, dial } from "./connection.ts";
import { asPostgresError } from "./errors.ts";
import { type Giving, releaseAll, renewAll, revoke } from "./give-back.ts";
import { isDirect } from "./greeting.ts";
import { tableGuarantees } from "./guarantees.ts";
import { type Checked, checkOptions, type PostgresDriverOptions } from "./options.ts";
import { probeServer } from "./probe.ts";
import { listNames, recordOf } from "./records.ts";
import { ensureSchema } from "./schema.ts";
import { statements } from "./sql.ts";
import type { Statements } from "./sql-parts.ts";
import { sweepOf } from "./sweep.ts";
import { Wakes } from "./wakes.ts";

/** What the lease table promises. */
export interface PostgresCapabilities extends Capabilities {
  readonly fencing: "durable";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: Mode;
}

/**
 * A driver that keeps leases in tables, with the settings of a client of `pg` or `postgres` (postgres.js). It opens
 * sessions of its own, at the first use: a pool that is used up by those who wait for a lock never starves its holder.
 * The client itself is not used and stays yours, connected or not. It works through PgBouncer in any mode.
 * @throws InvalidArgumentError for an option that makes no sense, and for a client of another kind
 * @example
 * ```ts
 * const locks = createLockManager(postgresDriver(new Pool({ connectionString })));
 * ```
 */
export function postgresDriver(
  client: PostgresClient,
  options: PostgresDriverOptions = {},
): Driver<PostgresCapabilities> {
  return postgresDriverOn(dialerOf(client), options);
}

/** The same over sessions of any kind, such as those of a simulator. */
export function postgresDriverOn(
  dialerFor: () => Promise<Dialer>,
  options: PostgresDriverOptions = {},
): Driver<PostgresCapabilities> {
  const checked = checkOptions(options);
  return {
    name: "postgres",
    fencing: "durable",
    waiting: "queue",
    liveness: "ttl",
    clock: "server-wall",
    modes: ["exclusive", "shared", "permits"],
    ttl: { minMs: 250, stepMs: 1 },
    mints: "at-grant",
    transfer: "yes",
    retains: "yes",
    guarantees: tableGuarantees,
    async open(context: DriverContext): Promise<Backend> {
      const dialer = await dialerFor();
      const backend = new PostgresBackend(dialer, context, checked);
      try {
        await backend.prepare();
        return backend;
      } catch (error) {
        await backend.close();
        throw asPostgresError(error);
      }
    },
  };
}

class PostgresBackend implements Backend {
  readonly #context: DriverContext;
  readonly #checked: Checked;
  readonly #sql: Statements;
  readonly #space: string;
  readonly #channel: string;
  readonly #sessions: Sessions<Connection>;
  readonly #wakes: Wakes;
  readonly #sweeper: Sweeper<Connection>;
  readonly #places = new Places();
  #pooled = false;
  #closed = false;

  constructor(dialer: Dialer, context: DriverContext, checked: Checked) {
    const { clock, random } = context;
    this.#context = context;
    this.#checked = checked;
    this.#sql = statements(checked.tables);
    this.#space = `${encodeName(context.namespace)}:`;
    // One process may have several backends, and each is told only of its own entries.
    this.#channel = `ringfence_${Buffer.from(random.bytes(12)).toString("hex")}`;
    const { maxSessions: max } = checked;
    this.#sessions = new Sessions({
      database: DATABASE,
      dial: async () => dial(dialer, clock),
      clock,
      max,
      greet: async (connection, dueAt) => {
        await this.#greet(connection, dueAt);
      },
    });
    this.#sweeper = new Sweeper(this.#sessions, clock, sweepOf(this.#sql));
    this.#wakes = new Wakes({
      dialer,
      clock,
      random,
      channel: this.#channel,
      greet: async (connection, dueAt) => this.#greet(connection, dueAt),
      onMessage: (grantId) => {
        if (this.#closed) return;
        this.#places.wake(grantId);
        context.notify({ kind: "wake", grantId });
      },
      onListening: () => {
        for (const grantId of this.#places.queued) context.notify({ kind: "wake", grantId });
      },
    });
  }

  /** Connects, and sees to the tables. */
  async prepare(): Promise<void> {
    const dueAt = this.#context.clock.mono() + 2 * CONNECT_TIMEOUT_MS;
    const { tables, autoCreate } = this.#checked;
    await this.#sessions.use(dueAt, async (connection) => {
      await ensureSchema(connection, tables, autoCreate, dueAt);
    });
  }

  async attempt(ask: Ask, io: Io): Promise<Answer> {
    const dueAt = this.#dueAt(io);
    const listens = this.#wakes.listening;
    const begun = listens || ask.join === "no" ? undefined : this.#wakes.start();
    const use = async (asked: Ask): ReturnType<typeof attempt> => {
      const woken = this.#places.asks(ask.grantId);
      return await this.#use(dueAt, async (connection) =>
        attempt({ ...this.#asking(connection, ask.name, dueAt), woken }, asked),
      );
    };
    let answer = await use(ask);
    let { join } = ask;
    const deaf = !this.#wakes.listening;
    // What it was told before it listened is lost.
    if (begun !== undefined && deaf && isQueued(answer)) {
      await listensSoon(begun, this.#context.clock, dueAt);
      if (this.#wakes.listening) {
        join = "kept";
        answer = await use({ ...ask, join });
      }
    }
    this.#places.answered(ask, join, answer);
    if (answer.kind !== "busy" || !answer.queued || this.#wakes.listening) return answer;
    return polling(answer);
  }

  async renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]> {
    const dueAt = this.#dueAt(io);
    return await this.#use(
      dueAt,
      async (connection) => renewAll(this.#giving(connection, dueAt), grants),
      true,
    );
  }

  async release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]> {
    const dueAt = this.#dueAt(io);
    const places = new Map(grants.map(({ grantId }) => [grantId, this.#places.leave(grantId)]));
    const releases = await this.#use(dueAt, async (connection) =>
      releaseAll(this.#giving(connection, dueAt), grants, (grantId) => places.get(grantId)),
    );
    this.#sweeper.released(grants.length);
    return releases;
  }

  async revoke(
    order: { readonly name: string; readonly grantId: string; readonly now: boolean },
    io: Io,
  ): Promise<Release> {
    const dueAt = this.#dueAt(io);
    return await this.#use(dueAt, async (connection) =>
      revoke(this.#giving(connection, dueAt), order),
    );
  }

  async exchange(
    from: string,
    ask: Ask,
    io: Io,
  ): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }> {
    const dueAt = this.#dueAt(io);
    return await this.#use(dueAt, async (connection) =>
      exchange(this.#asking(connection, ask.name, dueAt), from, ask),
    );
  }

  async inspect(name: string, io: Io): Promise<LockRecord> {
    const dueAt = this.#dueAt(io);
    const at = { name, key: this.#keyOf(name), dueAt };
    return await this.#use(dueAt, async (connection) => recordOf(connection, this.#sql, at));
  }

  async list(
    page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
    io: Io,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    const dueAt = this.#dueAt(io);
    return await this.#use(dueAt, async (connection) =>
      listNames(connection, this.#sql, this.#space, page, dueAt),
    );
  }

  async probe(io: Io): Promise<readonly Finding[]> {
    const dueAt = this.#dueAt(io);
    const { tables } = this.#checked;
    return await this.#use(dueAt, async (connection) =>
      probeServer(connection, this.#context.clock, tables, this.#pooled, dueAt),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wakes.close();
    this.#sessions.close();
  }

  /** True for a session of the server itself. */
  async #greet(connection: Connection, dueAt: number): Promise<boolean> {
    const direct = await isDirect(connection, dueAt, this.#checked.pooler, this.#context.host.id);
    connection.prepare = direct;
    this.#pooled = !direct;
    return direct;
  }

  #asking(connection: Connection, name: string, dueAt: number): Asking {
    const key = this.#keyOf(name);
    return { connection, sql: this.#sql, key, dueAt, channel: this.#channel, woken: false };
  }

  #giving(connection: Connection, dueAt: number): Giving {
    const keyOf = (name: string): string => this.#keyOf(name);
    return { connection, sql: this.#sql, keyOf, dueAt };
  }

  #keyOf(name: string): string {
    return this.#space + encodeName(name);
  }

  #dueAt(io: Io): number {
    if (this.#closed)
      throw new DriverError("unavailable", "not-applied", "This PostgreSQL backend was closed.");
    return this.#context.clock.mono() + io.timeoutMs;
  }

  async #use<T>(
    dueAt: number,
    step: (connection: Connection) => Promise<T>,
    urgent = false,
  ): Promise<T> {
    try {
      return await this.#sessions.use(dueAt, step, urgent);
    } catch (error) {
      throw asPostgresError(error);
    }
  }
}

function isQueued(answer: Answer): boolean {
  return answer.kind === "busy" && answer.queued;
}
