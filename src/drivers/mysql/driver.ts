/**
 * Locks in tables of a MySQL or MariaDB database: the lease table.
 *
 * - Layout: a row for each lock with its exclusive lease and the counter of its tokens; rows for what takes room beside
 *   one (shared leases, permits), for waiters in order of arrival, and for grant ids that must not be granted any more.
 *   A row is found by the hash of its name, since no collation may say which names are equal.
 * - The atomic step: where nobody contends one conditional statement. Everything else is a short READ COMMITTED
 *   transaction of ours that takes the lock's row first and looks afterwards, in two messages.
 * - Exclusion: a grant is written only by whoever has the row and saw no lease or lock-delay that runs, by the server's
 *   clock. A holder counts its ttl from before its request was sent, so it gives up before the server does.
 * - Tokens: one more than the row remembers, committed before they are told. A row is deleted only once a floor that
 *   every new row begins above has its numbers, and nobody makes a row while the floor is raised.
 * - Order: a free lock is offered to the oldest live waiter for min(its ttl, 3 s). Its process is told by ending a
 *   statement that sleeps there, and asks in case that is lost: the first waiter most often, who is behind less.
 * - Late packets: no renewal and no repeated ask ends a lease sooner; a release that may be overtaken by an ask leaves a
 *   tombstone; the session of a statement that got no answer in time is destroyed.
 * - What breaks it: a step of the server's clock, a replica that is promoted, settings that forget commits (refused), a
 *   restore. Then two may believe that they hold; only a guard at the resource keeps their effects apart.
 */
import { createHash } from "node:crypto";
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
import { LinkError } from "../sql/link-error.ts";
import { Places } from "../sql/places.ts";
import { pageOf, recordOf } from "../sql/records.ts";
import { CONNECT_TIMEOUT_MS } from "../sql/session.ts";
import { Sessions } from "../sql/sessions.ts";
import { Sweeper } from "../sql/sweeper.ts";
import { attempt, exchange } from "./acquire.ts";
import { addressOf, type Dialer, type MysqlClient } from "./client.ts";
import { type Connection, DATABASE, dial, rowsOf } from "./connection.ts";
import { asMysqlError } from "./errors.ts";
import { type Giving, releaseAll, renewAll, revoke } from "./give-back.ts";
import { greet } from "./greeting.ts";
import { guarantees } from "./guarantees.ts";
import { type Checked, checkOptions, type MysqlDriverOptions } from "./options.ts";
import { probeServer } from "./probe.ts";
import { ensureSchema } from "./schema.ts";
import { shownOf } from "./sight.ts";
import { statements } from "./sql.ts";
import type { Statements } from "./sql-parts.ts";
import { type Key, put } from "./step.ts";
import { sweepOf } from "./sweep.ts";
import { Wakes } from "./wakes.ts";
import { dialerOf } from "./wire.ts";

/** What the lease table promises. */
export interface MysqlCapabilities extends Capabilities {
  readonly fencing: "durable";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: Mode;
}

/**
 * A driver that keeps leases in tables, with the settings of a pool or connection of `mysql2` or `mysql2/promise`. It
 * opens sessions of its own, at the first use: a pool that is used up by those who wait for a lock never starves its
 * holder. The client itself is not used and stays yours, connected or not.
 * @throws InvalidArgumentError for an option that makes no sense, and for what is no client of mysql2
 * @example
 * ```ts
 * const locks = createLockManager(mysqlDriver(createPool(process.env.DATABASE_URL)));
 * ```
 */
export function mysqlDriver(
  client: MysqlClient,
  options: MysqlDriverOptions = {},
): Driver<MysqlCapabilities> {
  const checked = checkOptions(options);
  const address = addressOf(client);
  return {
    name: "mysql",
    fencing: "durable",
    waiting: "queue",
    liveness: "ttl",
    clock: "server-wall",
    modes: ["exclusive", "shared", "permits"],
    ttl: { minMs: 250, stepMs: 1 },
    mints: "at-grant",
    transfer: "yes",
    retains: "yes",
    guarantees,
    async open(context: DriverContext): Promise<Backend> {
      const backend = new MysqlBackend(await dialerOf(address), context, checked);
      try {
        await backend.prepare();
        return backend;
      } catch (error) {
        await backend.close();
        throw asMysqlError(error);
      }
    },
  };
}

class MysqlBackend implements Backend {
  readonly #context: DriverContext;
  readonly #checked: Checked;
  readonly #sql: Statements;
  readonly #space: string;
  readonly #sessions: Sessions<Connection>;
  readonly #wakes: Wakes;
  readonly #sweeper: Sweeper<Connection>;
  readonly #places = new Places();
  #closed = false;

  constructor(dialer: Dialer, context: DriverContext, checked: Checked) {
    const { clock, random } = context;
    this.#context = context;
    this.#checked = checked;
    this.#sql = statements(checked.tables);
    this.#space = `${encodeName(context.namespace)}:`;
    const greeting = async (connection: Connection, dueAt: number): Promise<void> =>
      greet(connection, dueAt, checked.pooler);
    this.#sessions = new Sessions({
      database: DATABASE,
      dial: async () => dial(dialer, clock),
      clock,
      max: checked.maxSessions,
      greet: greeting,
    });
    this.#wakes = new Wakes({
      clock,
      random,
      tables: checked.tables,
      sessions: this.#sessions,
      dial: async () => {
        const connection = await dial(dialer, clock);
        try {
          await greeting(connection, clock.mono() + CONNECT_TIMEOUT_MS);
        } catch (error) {
          connection.end(new LinkError("the session could not be set up", { sent: false }));
          throw error;
        }
        return connection;
      },
      onWake: (grantId) => {
        if (this.#closed) return;
        this.#places.wake(grantId);
        context.notify({ kind: "wake", grantId });
      },
      waiting: this.#places.queued,
      onListening: () => {
        for (const grantId of this.#places.queued) context.notify({ kind: "wake", grantId });
      },
    });
    this.#sweeper = new Sweeper(this.#sessions, clock, sweepOf(this.#sql));
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
    const begun = ask.join === "no" || this.#wakes.listening ? undefined : this.#wakes.start();
    // An entry says where it is told, so whoever joins waits a moment for that.
    const { clock } = this.#context;
    const dueAt = clock.mono() + io.timeoutMs;
    if (begun !== undefined && ask.join === "yes") await listensSoon(begun, clock, dueAt);
    // What is left: an ask that is sent after its time would be nobody's.
    const left = { ...io, timeoutMs: dueAt - clock.mono() };
    const woken = this.#places.asks(ask.grantId);
    const key = this.#keyOf(ask.name);
    const answer = await this.#use(left, async (at) =>
      attempt({ ...at, key, channel: this.#wakes.channel, woken }, ask),
    );
    this.#places.answered(ask, ask.join, answer);
    if (answer.kind !== "busy" || !answer.queued || this.#wakes.listening) return answer;
    return polling(answer);
  }

  async renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]> {
    return await this.#use(io, async (at) => renewAll(at, grants), true);
  }

  async release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]> {
    const places = new Map(grants.map(({ grantId }) => [grantId, this.#places.leave(grantId)]));
    const releases = await this.#use(io, async (at) =>
      releaseAll(at, grants, (grantId) => places.get(grantId)),
    );
    this.#sweeper.released(grants.length);
    return releases;
  }

  async revoke(
    order: { readonly name: string; readonly grantId: string; readonly now: boolean },
    io: Io,
  ): Promise<Release> {
    return await this.#use(io, async (at) => revoke(at, order));
  }

  async exchange(
    from: string,
    ask: Ask,
    io: Io,
  ): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }> {
    return await this.#use(io, async (at) =>
      exchange({ ...at, key: this.#keyOf(ask.name), channel: "", woken: false }, from, ask),
    );
  }

  async inspect(name: string, io: Io): Promise<LockRecord> {
    const text = put(this.#sql.inspect, this.#keyOf(name).id);
    const [found] = await this.#use(io, async (at) => at.connection.script(text, at.dueAt));
    return recordOf(name, shownOf(rowsOf(found)));
  }

  async list(
    page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
    io: Io,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    const from = this.#space + encodeName(page.prefix);
    // Every character of a name in the table sorts before the brace.
    const text = put(this.#sql.list, from, `${from}{`, page.cursor ?? "") + String(page.limit + 1);
    const [found] = await this.#use(io, async (at) => at.connection.script(text, at.dueAt));
    const names = rowsOf(found).map(([name]) => name ?? "");
    return pageOf(names, page.limit, this.#space);
  }

  async probe(io: Io): Promise<readonly Finding[]> {
    const { tables, pooler } = this.#checked;
    const { clock } = this.#context;
    return await this.#use(io, async ({ connection, dueAt }) =>
      probeServer(connection, clock, tables, pooler, dueAt),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wakes.close();
    this.#sessions.close();
  }

  /** A name in the tables: names may be longer than an index can be. */
  #keyOf(name: string): Key {
    const full = this.#space + encodeName(name);
    return { id: createHash("sha256").update(full).digest("base64url"), name: full };
  }

  /** Runs a step with a session. */
  async #use<T>(io: Io, step: (at: Giving) => Promise<T>, urgent = false): Promise<T> {
    if (this.#closed)
      throw new DriverError("unavailable", "not-applied", "This MySQL backend was closed.");
    const dueAt = this.#context.clock.mono() + io.timeoutMs;
    const keyOf = (name: string): Key => this.#keyOf(name);
    const wake: Giving["wake"] = (waiters) => {
      this.#wakes.ring(waiters);
    };
    try {
      return await this.#sessions.use(
        dueAt,
        async (connection) => step({ connection, sql: this.#sql, dueAt, keyOf, wake }),
        urgent,
      );
    } catch (error) {
      throw asMysqlError(error);
    }
  }
}
