import type { Ask, Driver } from "../../core/driver.ts";
import { decodeName } from "../../core/lock-name.ts";
import { postgresDriverOn } from "../../drivers/postgres/driver.ts";
import type { LabCapabilities } from "../clients/core-client.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { LockPlace } from "./place.ts";
import { simDialer } from "./postgres-connection.ts";
import type { Change, LockRow, ShareRow, TableName } from "./postgres-rows.ts";
import { type PostgresOptions, PostgresServer } from "./postgres-server.ts";
import { ServerTrace } from "./trace.ts";

/** A PostgreSQL, its standbys, and the production driver of the lease table over sessions with it. */
export class PostgresPlace implements LockPlace {
  readonly world: World;
  /** The first is the primary. */
  readonly servers: PostgresServer[];
  readonly #trace: ServerTrace;

  /** `options`: of the primary, and of each standby. */
  constructor(world: World, name: string, ...options: readonly PostgresOptions[]) {
    this.world = world;
    const all = options.length === 0 ? [{}] : options;
    this.servers = all.map(
      (each, i) => new PostgresServer(world, all.length === 1 ? name : `${name}${i + 1}`, each),
    );
    for (const standby of this.servers.slice(1)) this.primary.replicateTo(standby);
    this.#trace = new ServerTrace(world, () => this.primary.process);
    this.#watch();
  }

  get name(): string {
    return this.primary.name;
  }

  get primary(): PostgresServer {
    const [primary] = this.servers;
    if (primary === undefined) throw new Error("no PostgreSQL");
    return primary;
  }

  startClient(name: string): SimProcess {
    return this.world.start(name);
  }

  /** What a client process opens. */
  driverFor(client: SimProcess): Driver<LabCapabilities> {
    return postgresDriverOn(async () => simDialer(this.world, client, () => this.primary));
  }

  /** Dies, and starts again with what it had flushed. */
  restart(): void {
    this.primary.restart("synced");
  }

  /** The primary dies for good, and its first standby takes over with what it has received. */
  failOver(): void {
    const old = this.servers.shift();
    if (old !== undefined) this.world.kill(old.name);
    this.#trace.forget();
    this.primary.promote();
    this.#watch();
  }

  /** Writes what is committed into the history, whoever committed it. */
  #watch(): void {
    const { engine } = this.primary;
    const tell = engine.onNotify;
    engine.onNotify = (channel, payload) => {
      this.#trace.notice({ kind: "wake", grantId: payload });
      tell(channel, payload);
    };
    engine.onCommit = (changes, before) => {
      // Who leaves the queue for a grant has that first.
      for (const waiting of [false, true])
        changes.forEach((change, i) => {
          if ((change.table === "waiters") === waiting) this.#note(change, before[i]);
        });
    };
  }

  #note({ table, id, row }: Change, was: Change["row"]): void {
    const before = was as LockRow | ShareRow | undefined;
    if (table === "waiters") this.#queued(row as ShareRow | undefined, before as ShareRow);
    if (table !== "locks" && table !== "shares") return;
    const now = row as LockRow | ShareRow | undefined;
    const held = before?.grant_id ?? null;
    const holds = now?.grant_id ?? null;
    const name = nameOf(id);
    if (before !== undefined && held !== null && held !== holds)
      this.#trace.released([refOf(before, held, 0)], [{ kind: "released" }]);
    if (now === undefined || holds === null) return;
    const ttlMs = (now.expires - this.primary.engine.host.micros()) / 1000;
    // A lease that a transaction found standing, and that ran out before it wrote, stands again: nobody else could have
    // the name in between, since its row was locked.
    const longer = before !== undefined && now.expires > before.expires;
    if (held !== holds || (before?.first ?? null) !== now.first || longer) {
      const tokens = now.first === null ? null : { first: now.first, count: countOf(now) };
      const terms = { takenOver: false, previousToken: null, ttlMs };
      const ask = { ...refOf(now, holds, ttlMs), ...this.#askOf(table, now) };
      this.#trace.attempted(ask, { kind: "granted", tokens, ...terms });
    } else if (before !== undefined && now.expires < before.expires)
      this.#trace.revoked({ name, grantId: holds }, { kind: "released" });
  }

  #askOf(
    table: TableName,
    row: LockRow | ShareRow,
  ): Pick<Ask, "permits" | "holder" | "tokens" | "join"> {
    const lock = this.primary.engine.versions.get("locks", row.key);
    const permits = table === "locks" ? 1 : (lock?.permits ?? 1);
    return { permits, holder: row.holder ?? "", tokens: countOf(row), join: "no" };
  }

  #queued(row: ShareRow | undefined, was: ShareRow | undefined): void {
    if (row === undefined && was !== undefined) this.#trace.left(was.grant_id, nameOf(was.key));
    if (row === undefined || was !== undefined) return;
    const ask: Ask = {
      ...refOf(row, row.grant_id, row.ttl_ms),
      permits: 1,
      holder: row.holder,
      tokens: 1,
      join: "yes",
    };
    const waits = { queued: true, blockedBy: "lease", holder: null } as const;
    this.#trace.attempted(ask, { kind: "busy", ...waits, askAgainMs: 0, keepEntryMs: 0 });
  }
}

function countOf(row: LockRow | ShareRow): number {
  return "count" in row ? row.count : 1;
}

/** The lock that a row is of: its key, or what begins with it. */
function nameOf(id: string): string {
  const [key = ""] = id.split(" ");
  return decodeName(key.slice(key.indexOf(":") + 1));
}

function refOf(
  row: LockRow | ShareRow,
  grantId: string,
  ttlMs: number,
): Pick<Ask, "name" | "mode" | "grantId" | "ttlMs" | "lockDelayMs"> {
  const mode = "mode" in row ? (row.mode as Ask["mode"]) : "exclusive";
  return { name: nameOf(row.key), mode, grantId, ttlMs, lockDelayMs: row.delay_ms };
}
