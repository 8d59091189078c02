/**
 * Session-level advisory locks of PostgreSQL.
 *
 * - Layout: one session of ours for each lease, never the user's; the key is 64 bits of SHA-256 of the full name, which is
 *   stored beside it, so that two names with one key are found out. Rows say who has what; only `pg_locks` counts.
 * - The atomic step: `pg_try_advisory_lock`, the token and the row in one statement. A session re-enters its own locks:
 *   with one lease in each it never asks for a key that it has.
 * - Exclusion: the server's own, for as long as the session lives there; it knows no time. A holder that was told
 *   nothing learns of its session's end from the socket, and at the latest from its heartbeat.
 * - Heartbeat: each renewal reads `pg_locks` for its own pid and key. That a session answers proves nothing: after
 *   DISCARD ALL the lock is gone and `SELECT 1` works.
 * - Tokens: drawn from the lease table's sequence while the lock is held, and committed in that statement.
 * - Waiting: polls. A session that blocks in `pg_advisory_lock` keeps a snapshot, and CREATE INDEX CONCURRENTLY on any
 *   table waits for it: for ever, if the holder is the one that builds the index.
 * - What breaks it: a pooler that hands sessions on (refused), a failover (locks are in memory only: the new primary has
 *   none, and the old one's clients may not know yet), a host that vanishes and keeps its lock until TCP gives up.
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
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import { decodeName, encodeName } from "../../core/lock-name.ts";
import { LinkError } from "../sql/link-error.ts";
import type { Statement } from "../sql/statement.ts";
import { type AdvisoryStatements, advisoryStatements } from "./advisory-sql.ts";
import { type Dialer, dialerOf, type PostgresClient } from "./client.ts";
import type { Connection } from "./connection.ts";
import { asPostgresError } from "./errors.ts";
import { isDirect } from "./greeting.ts";
import { advisoryGuarantees } from "./guarantees.ts";
import { LeaseSessions } from "./lease-sessions.ts";
import { type AdvisoryOptions, type CheckedAdvisory, checkAdvisoryOptions } from "./options.ts";
import { probeServer } from "./probe.ts";
import { ensureSchema } from "./schema.ts";

/** What advisory locks promise. */
export interface PostgresAdvisoryCapabilities extends Capabilities {
  readonly fencing: "durable";
  readonly waiting: "poll";
  readonly liveness: "session";
  readonly clock: "none";
  readonly modes: Exclude<Mode, "permits">;
}

/** A lease, and the session that is its life. */
interface Held {
  readonly connection: Connection;
  readonly key: string;
  readonly mode: Mode;
  readonly answer: Granted;
}

/** How soon it is worth asking again, at the earliest: nothing tells when a session will end. */
const ASK_AGAIN_MS = 25;
const OPEN_MS = 10_000;

/**
 * A driver that holds session-level advisory locks, with the settings of a client of `pg` or `postgres` (postgres.js). Each
 * lease has a session of its own: it is for a few locks held long (migrations, leaders), and the lease table for the rest.
 * It refuses a pooler.
 * @throws InvalidArgumentError for an option that makes no sense, and for a client of another kind
 * @example
 * ```ts
 * const locks = createLockManager(postgresAdvisoryDriver(new Pool({ connectionString })));
 * ```
 */
export function postgresAdvisoryDriver(
  client: PostgresClient,
  options: AdvisoryOptions = {},
): Driver<PostgresAdvisoryCapabilities> {
  const checked = checkAdvisoryOptions(options);
  const dialerFor = dialerOf(client);
  return {
    name: "postgres-advisory",
    fencing: "durable",
    waiting: "poll",
    liveness: "session",
    clock: "none",
    modes: ["exclusive", "shared"],
    ttl: { minMs: 1000, stepMs: 1 },
    mints: "at-grant",
    transfer: "no",
    retains: "no",
    guarantees: advisoryGuarantees,
    async open(context: DriverContext): Promise<Backend> {
      const backend = new AdvisoryBackend(await dialerFor(), context, checked);
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

class AdvisoryBackend implements Backend {
  readonly #context: DriverContext;
  readonly #checked: CheckedAdvisory;
  readonly #sql: AdvisoryStatements;
  readonly #space: string;
  readonly #sessions: LeaseSessions;
  readonly #held = new Map<string, Held>();
  /** Grant ids that were given back while an ask may still be on its way, and until when they are refused. */
  readonly #refused = new Map<string, number>();
  #closed = false;

  constructor(dialer: Dialer, context: DriverContext, checked: CheckedAdvisory) {
    this.#context = context;
    this.#checked = checked;
    this.#sql = advisoryStatements(checked.tables);
    this.#space = `${encodeName(context.namespace)}:`;
    this.#sessions = new LeaseSessions({
      dialer,
      clock: context.clock,
      max: checked.maxSessions,
      greet: async (connection, dueAt) => {
        await refusePooler(connection, dueAt, checked.pooler, context.host.id);
      },
      onEnd: (connection) => {
        this.#ended(connection);
      },
    });
  }

  /** Connects, refuses a pooler, and sees to the tables. */
  async prepare(): Promise<void> {
    const dueAt = this.#context.clock.mono() + OPEN_MS;
    const { tables, autoCreate } = this.#checked;
    await this.#with(dueAt, async (connection) => {
      await ensureSchema(connection, tables, autoCreate, dueAt);
    });
  }

  async attempt(ask: Ask, io: Io): Promise<Answer> {
    const dueAt = this.#dueAt(io);
    if (this.#isRefused(ask.grantId)) return { kind: "vanished" };
    const before = this.#held.get(ask.grantId);
    if (before !== undefined && (await this.#beats(before, dueAt))) return before.answer;
    return await this.#take(ask, dueAt);
  }

  async renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]> {
    const dueAt = this.#dueAt(io);
    return await Promise.all(
      grants.map(async (ref): Promise<Renewal> => {
        try {
          const held = this.#held.get(ref.grantId);
          if (held !== undefined && (await this.#beats(held, dueAt)))
            return { kind: "renewed", ttlMs: ref.ttlMs };
          this.#drop(ref.grantId);
          return { kind: "gone", reason: await this.#whyGone(ref, dueAt) };
        } catch (error) {
          return { kind: "failed", error: asPostgresError(error) };
        }
      }),
    );
  }

  async release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]> {
    const dueAt = this.#dueAt(io);
    return await Promise.all(
      grants.map(async (ref): Promise<Release> => {
        try {
          return await this.#release(ref, dueAt);
        } catch (error) {
          return { kind: "failed", error: asPostgresError(error) };
        }
      }),
    );
  }

  async revoke(
    order: { readonly name: string; readonly grantId: string; readonly now: boolean },
    io: Io,
  ): Promise<Release> {
    const args = [keyOf(this.#nameOf(order.name)), order.grantId];
    const [row] = await this.#run(this.#sql.revoke, args, this.#dueAt(io));
    return row === "true" ? { kind: "released" } : { kind: "gone", reason: "session-ended" };
  }

  async inspect(name: string, io: Io): Promise<LockRecord> {
    const full = this.#nameOf(name);
    const [row = "[]"] = await this.#run(this.#sql.inspect, [keyOf(full), full], this.#dueAt(io));
    return recordOf(name, JSON.parse(row) as readonly Shown[]);
  }

  async list(
    page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
    io: Io,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    const from = this.#space + encodeName(page.prefix);
    const args = [from, `${from}{`, page.cursor ?? "", String(page.limit + 1)];
    const found = await this.#run(this.#sql.list, args, this.#dueAt(io));
    const names = found
      .slice(0, page.limit)
      .map((full) => decodeName(full.slice(this.#space.length)));
    const last = found[page.limit - 1];
    return found.length > page.limit && last !== undefined ? { names, cursor: last } : { names };
  }

  async probe(io: Io): Promise<readonly Finding[]> {
    const dueAt = this.#dueAt(io);
    const { tables } = this.#checked;
    return await this.#with(dueAt, async (connection) =>
      probeServer(connection, this.#context.clock, tables, false, dueAt),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#held.clear();
    this.#sessions.close();
  }

  async #take(ask: Ask, dueAt: number): Promise<Answer> {
    const full = this.#nameOf(ask.name);
    const key = keyOf(full);
    const statement = ask.mode === "shared" ? this.#sql.shared : this.#sql.exclusive;
    const above = String(ask.above ?? 0n);
    const args = [key, full, ask.grantId, ask.mode, ask.holder, String(ask.tokens), above];
    const connection = await this.#sessions.take(dueAt).catch((error: unknown) => {
      throw asPostgresError(error);
    });
    try {
      const [row = ""] = await connection.run({ statement, args }, dueAt);
      const [ok, first = "", previous = "", over, , ...holder] = row.split("|");
      if (ok !== "t") {
        this.#sessions.give(connection);
        return busy(holder.join("|"));
      }
      if (first === "") throw collision(ask.name, full);
      const token = BigInt(first);
      if (token + BigInt(ask.tokens) - 1n > MAX_TOKEN)
        throw new DriverError("config", "not-applied", "The fencing tokens are used up");
      const answer: Granted = {
        kind: "granted",
        tokens: { first: token, count: ask.tokens },
        takenOver: over === "t",
        previousToken: previous === "" ? null : BigInt(previous),
        ttlMs: ask.ttlMs,
      };
      const held = { connection, key, mode: ask.mode, answer };
      this.#held.set(ask.grantId, held);
      if (this.#isRefused(ask.grantId)) {
        // It was given back while this was under way.
        await this.#unlock(ask.grantId, held, undefined, dueAt);
        return { kind: "vanished" };
      }
      return answer;
    } catch (error) {
      // The lock may have been taken before what failed: it ends with the session.
      this.#held.delete(ask.grantId);
      this.#sessions.end(connection);
      throw asPostgresError(error);
    }
  }

  async #release(ref: GrantRef, dueAt: number): Promise<Release> {
    const { grantId, refuseLateMs = 0 } = ref;
    if (refuseLateMs > 0) this.#refuse(grantId, refuseLateMs);
    const held = this.#held.get(grantId);
    if (held === undefined) return { kind: "gone", reason: await this.#whyGone(ref, dueAt) };
    const there = await this.#unlock(grantId, held, ref.raiseTo, dueAt);
    return there ? { kind: "released" } : { kind: "gone", reason: "session-ended" };
  }

  /** False when the session did not have the lock any more: something went wrong before, and the session goes too. */
  async #unlock(
    grantId: string,
    held: Held,
    raiseTo: bigint | undefined,
    dueAt: number,
  ): Promise<boolean> {
    const { connection, key, mode } = held;
    const statement = mode === "shared" ? this.#sql.releaseShared : this.#sql.releaseExclusive;
    const args = [key, grantId, String(raiseTo ?? 0n)];
    this.#held.delete(grantId);
    try {
      const [row] = await connection.run({ statement, args }, dueAt);
      const there = row?.startsWith("t") === true;
      if (there) this.#sessions.give(connection);
      else this.#sessions.end(connection);
      return there;
    } catch (error) {
      this.#sessions.end(connection);
      throw error;
    }
  }

  /** Whether the session that is the lease's life still has its lock. */
  async #beats({ connection, key }: Held, dueAt: number): Promise<boolean> {
    const over = (): boolean => !connection.open;
    if (over()) return false;
    const call = { statement: this.#sql.heartbeat, args: [key] };
    try {
      const [row] = await connection.run(call, dueAt);
      return row === "true";
    } catch (error) {
      // A session that the server has ended may say so only now, and it is not used again.
      if (over()) return false;
      throw error;
    }
  }

  #drop(grantId: string): void {
    const held = this.#held.get(grantId);
    if (held === undefined) return;
    this.#held.delete(grantId);
    this.#sessions.end(held.connection);
  }

  /** The socket told that a session has ended: what it held is gone at once. */
  #ended(connection: Connection): void {
    for (const [grantId, held] of this.#held) {
      if (held.connection !== connection) continue;
      this.#held.delete(grantId);
      if (!this.#closed)
        this.#context.notify({ kind: "gone", grantIds: [grantId], reason: "session-ended" });
    }
  }

  async #whyGone({ name, grantId }: GrantRef, dueAt: number): Promise<GoneReason> {
    const args = [keyOf(this.#nameOf(name)), grantId];
    const [row = ""] = await this.#run(this.#sql.whyGone, args, dueAt);
    const [revoked, taken] = row.split("|");
    if (revoked === "t") return "revoked";
    return taken === "t" ? "taken" : "session-ended";
  }

  #refuse(grantId: string, forMs: number): void {
    const now = this.#context.clock.mono();
    if (this.#refused.size >= 1000)
      for (const [id, until] of this.#refused) if (until <= now) this.#refused.delete(id);
    this.#refused.set(grantId, now + forMs);
  }

  #isRefused(grantId: string): boolean {
    return (this.#refused.get(grantId) ?? 0) > this.#context.clock.mono();
  }

  /** One statement on a session that holds nothing. */
  async #run(
    statement: Statement,
    args: readonly (string | null)[],
    dueAt: number,
  ): Promise<readonly string[]> {
    return await this.#with(dueAt, async (connection) =>
      connection.run({ statement, args }, dueAt),
    );
  }

  async #with<T>(dueAt: number, step: (connection: Connection) => Promise<T>): Promise<T> {
    try {
      const connection = await this.#sessions.take(dueAt);
      try {
        return await step(connection);
      } finally {
        this.#sessions.give(connection);
      }
    } catch (error) {
      throw asPostgresError(error);
    }
  }

  #nameOf(name: string): string {
    return this.#space + encodeName(name);
  }

  #dueAt(io: Io): number {
    if (this.#closed)
      throw new DriverError("unavailable", "not-applied", "This PostgreSQL backend was closed.");
    return this.#context.clock.mono() + io.timeoutMs;
  }
}

/** 64 bits of SHA-256 of the full name, as a signed number. */
export function keyOf(full: string): string {
  return createHash("sha256").update(full).digest().readBigInt64BE(0).toString();
}

function busy(holder: string): Answer {
  return {
    kind: "busy",
    queued: false,
    blockedBy: "lease",
    holder: holder === "" ? null : holder,
    askAgainMs: ASK_AGAIN_MS,
    keepEntryMs: Number.POSITIVE_INFINITY,
  };
}

function collision(name: string, full: string): DriverError {
  return new DriverError(
    "config",
    "not-applied",
    `The lock name ${JSON.stringify(name)} has the same 64-bit key (${keyOf(full)}) as another name that was used here: rename one of them`,
  );
}

async function refusePooler(
  connection: Connection,
  dueAt: number,
  pooler: "session" | undefined,
  host: string,
): Promise<void> {
  if (await isDirect(connection, dueAt, pooler, host)) return;
  const sent = new LinkError("a pooler is in between", { sent: false });
  connection.end(sent);
  throw new DriverError(
    "config",
    "not-applied",
    'Advisory locks belong to a session of the server, and a pooler is in between, which may hand this session to another client after each transaction: both would hold the lock. Use `postgresDriver` (the lease table), a direct address, or `pooler: "session"` if it pools sessions',
  );
}

/** What the statement `inspect` shows of a holder. */
interface Shown {
  readonly grant: string;
  readonly mode: Mode;
  readonly holder: string;
  readonly first: string;
  readonly last: string;
  readonly since: number;
}

function recordOf(name: string, shown: readonly Shown[]): LockRecord {
  return {
    name,
    mode: shown[0]?.mode ?? null,
    permits: 1,
    holders: shown.map(({ grant, holder, first, last, since }) => ({
      grantId: grant,
      holder,
      token: BigInt(first),
      lastToken: BigInt(last),
      remainingMs: null,
      sinceMs: since,
    })),
    waiters: [],
    lockDelayMs: 0,
  };
}
