import {
  type Answer,
  type Ask,
  type Backend,
  type DriverContext,
  DriverError,
  type Finding,
  type GoneReason,
  type Granted,
  type GrantRef,
  type LockRecord,
  type Release,
  type Renewal,
} from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";
import { attempt, exchange, grantIdle } from "./acquire.ts";
import { openTransaction } from "./client.ts";
import { asDriverError } from "./errors.ts";
import { releaseAll, releaseSole, renewAll, renewSole, revoke } from "./give-back.ts";
import { type Opened, openStore, type Source } from "./open-store.ts";
import type { Settings } from "./options.ts";
import { findings } from "./probe.ts";
import { listNames, recordOf } from "./records.ts";
import { Step, type Store, TakenOverError } from "./step.ts";
import { Sweeper } from "./sweep.ts";
import type { Doorbells } from "./system.ts";

const GONE = { kind: "gone", reason: "taken" } as const;

/** One manager's connection. Every method is one synchronous step, whose result is wrapped in a promise. */
export class SqliteBackend implements Backend {
  readonly #source: Source;
  readonly #settings: Settings;
  readonly #context: DriverContext;
  readonly #client: string;
  readonly #bells: Doorbells | null;
  readonly #host: string;
  readonly #sweeper = new Sweeper();
  /** Single statements join a transaction that the user has open, unseen, where the client cannot tell of one. */
  readonly #fast: boolean;
  /** Entries of ours that stand in a queue: while there are any, the doorbell is watched. */
  readonly #queued = new Set<string>();
  #opened: Opened | null;
  #replaced = false;
  #closed = false;

  constructor(parts: {
    readonly source: Source;
    readonly settings: Settings;
    readonly context: DriverContext;
    readonly opened: Opened;
    readonly client: string;
  }) {
    this.#source = parts.source;
    this.#settings = parts.settings;
    this.#context = parts.context;
    this.#client = parts.client;
    this.#opened = parts.opened;
    this.#host = encodeName(parts.context.host.id);
    const { source } = parts;
    this.#fast =
      source.kind === "path" ||
      source.db.inTransaction !== undefined ||
      source.db.isTransaction !== undefined;
    this.#bells = parts.opened.path === null ? null : this.#makeBells(parts.opened.path);
    this.#sweepBells(parts.opened.store);
  }

  async attempt(ask: Ask): Promise<Answer> {
    return this.#step((store) => {
      const idle = this.#fast && !this.#queued.has(ask.grantId) ? grantIdle(store, ask) : null;
      if (idle !== null) return idle;
      // Before the entry is there, so that no ring is missed.
      if (ask.join !== "no") this.#bells?.listen();
      try {
        const answer = this.#transact(store, (step) => attempt(step, ask));
        const queued = answer.kind === "busy" && answer.queued;
        if (queued) this.#queued.add(ask.grantId);
        else this.#queued.delete(ask.grantId);
        return answer;
      } finally {
        this.#restIfIdle();
      }
    });
  }

  async renew(grants: readonly GrantRef[]): Promise<readonly Renewal[]> {
    return this.#giveBack(grants, (store) => {
      const [only] = grants;
      if (only !== undefined && grants.length === 1 && this.#fast && renewSole(store, only))
        return [{ kind: "renewed", ttlMs: only.ttlMs }];
      return this.#transact(store, (step) => renewAll(step, grants));
    });
  }

  async release(grants: readonly GrantRef[]): Promise<readonly Release[]> {
    return this.#giveBack(grants, (store) => {
      const [only] = grants;
      const fast = only !== undefined && grants.length === 1 && this.#fast;
      const answers: readonly Release[] =
        fast && releaseSole(store, only)
          ? [{ kind: "released" }]
          : this.#transact(store, (step) => releaseAll(step, grants));
      for (const { grantId } of grants) this.#queued.delete(grantId);
      this.#restIfIdle();
      this.#sweep(store, grants.length);
      return answers;
    });
  }

  async revoke(order: {
    readonly name: string;
    readonly grantId: string;
    readonly now: boolean;
  }): Promise<Release> {
    return this.#step((store) => this.#transact(store, (step) => revoke(step, order)));
  }

  async exchange(
    from: string,
    ask: Ask,
  ): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }> {
    return this.#step((store) => this.#transact(store, (step) => exchange(step, from, ask)));
  }

  async inspect(name: string): Promise<LockRecord> {
    return this.#step((store) => recordOf(new Step(store), name));
  }

  async list(page: {
    readonly prefix: string;
    readonly limit: number;
    readonly cursor?: string;
  }): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    return this.#step((store) => listNames(store, page));
  }

  async probe(): Promise<readonly Finding[]> {
    return this.#step((_store, opened) =>
      findings(opened, this.#settings, {
        client: this.#client,
        deaf: this.#bells?.deaf ?? false,
      }),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#queued.clear();
    this.#bells?.close();
    this.#opened?.close();
    this.#opened = null;
  }

  #makeBells(database: string): Doorbells {
    const { clock } = this.#context;
    return this.#source.system.bells({
      database,
      host: this.#host,
      wall: () => clock.wall(),
      onRing: () => {
        this.#wake();
      },
    });
  }

  /** Tells core of the entries whose turn it is. Called by the watch, so it never throws. */
  #wake(): void {
    const opened = this.#opened;
    if (opened === null || this.#queued.size === 0) return;
    let ids: readonly string[] = [...this.#queued];
    try {
      const { client, sql, clock } = opened.store;
      const rows = client.all(sql.offeredTo, { host: this.#host, now: clock.mono() });
      ids = rows.map((row) => row.grant_id).filter((id) => this.#queued.has(id));
    } catch {
      // Busy or broken: each entry's own ask will tell, so all are woken. A wrong wake is harmless.
    }
    for (const grantId of ids) this.#context.notify({ kind: "wake", grantId });
  }

  /** Runs one step on the open database, and tells its errors as a `DriverError`. `looked`: at the file, just now. */
  #step<T>(run: (store: Store, opened: Opened) => T, looked = false): T {
    try {
      const opened = this.#current(looked);
      if (this.#source.kind === "db" && opened.store.client.inTransaction) throw openTransaction();
      return run(opened.store, opened);
    } catch (error) {
      throw asDriverError(error, this.#label());
    }
  }

  /** A step about grants that this process has: in a file that is not ours any more, there are none. */
  #giveBack<T extends Renewal | Release>(
    grants: readonly GrantRef[],
    run: (store: Store) => readonly T[],
  ): readonly (T | typeof GONE)[] {
    this.#noticeReplaced();
    if (this.#opened === null && this.#replaced) return grants.map(() => GONE);
    try {
      // One look is enough: it costs a tenth of a step.
      return this.#step(run, true);
    } catch (error) {
      if (error instanceof TakenOverError) return grants.map(() => GONE);
      throw error;
    }
  }

  #transact<T>(store: Store, run: (step: Step) => T): T {
    let rings: ReadonlySet<string> = new Set();
    const result = store.client.transaction(() => {
      const step = new Step(store);
      ({ rings } = step);
      return run(step);
    });
    for (const host of rings) this.#ring(host);
    return result;
  }

  #ring(host: string): void {
    if (this.#bells !== null) this.#bells.ring(host);
    else if (host === this.#host) this.#wake();
  }

  #restIfIdle(): void {
    if (this.#queued.size === 0) this.#bells?.rest();
  }

  #current(looked: boolean): Opened {
    if (this.#closed)
      throw new DriverError("unavailable", "not-applied", "This SQLite backend was closed");
    if (!looked) this.#noticeReplaced();
    if (this.#source.kind === "db" && this.#replaced) throw this.#movedAway();
    this.#opened ??= openStore(this.#source, this.#settings, this.#context, this.#replaced);
    return this.#opened;
  }

  /** Whoever works with the file at the path now cannot see what we hold in the one that we have open. */
  #noticeReplaced(): void {
    const opened = this.#opened;
    if (opened === null) return;
    try {
      if (opened.inPlace()) return;
    } catch (error) {
      throw asDriverError(error, this.#label());
    }
    this.#replaced = true;
    this.#queued.clear();
    this.#bells?.rest();
    opened.close();
    this.#opened = null;
    this.#context.notify({ kind: "gone", grantIds: "all", reason: "taken" });
  }

  #movedAway(): DriverError {
    return new DriverError(
      "config",
      "not-applied",
      `The lock file was deleted or replaced while the connection that was handed in has it open: open it again, and make a new driver`,
    );
  }

  #label(): string {
    if (this.#source.kind === "path") return this.#source.path;
    return this.#opened?.path ?? "of the connection that was handed in";
  }

  /** Clean-up never fails a release that was done: what went wrong shows at the next step. */
  #sweep(store: Store, released: number): void {
    try {
      this.#sweeper.released(store, released);
    } catch {
      // Busy, most likely. The next sweep continues here.
    }
  }

  #sweepBells({ client, sql }: Store): void {
    try {
      this.#bells?.sweep((host) => (client.get(sql.waitsFor, { host })?.n ?? 0) > 0);
    } catch {
      // Busy, or a folder of somebody else: the next one to open it cleans up.
    }
  }
}
