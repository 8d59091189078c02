import type { Clock } from "../../core/clock.ts";
import { DriverError, type GoneReason } from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";
import type { NamedSql, SqliteClient, SqliteValue } from "./client.ts";
import type { Identity } from "./identity.ts";
import type { Statements } from "./tables.ts";

/** One open database, as the steps see it. */
export class Store {
  readonly client: SqliteClient;
  readonly sql: Statements;
  readonly identity: Identity;
  readonly clock: Clock;
  /** Names this process's queue entries, and its doorbell. */
  readonly host: string;
  /** The file was deleted or replaced while this process had it open: who is not in it now was in the old one. */
  readonly replaced: boolean;
  readonly #namespace: string;
  readonly #keys = new Map<string, string>();

  constructor(parts: {
    readonly client: SqliteClient;
    readonly sql: Statements;
    readonly identity: Identity;
    readonly clock: Clock;
    readonly host: string;
    readonly namespace: string;
    readonly replaced: boolean;
  }) {
    this.client = parts.client;
    this.sql = parts.sql;
    this.identity = parts.identity;
    this.clock = parts.clock;
    this.host = parts.host;
    this.replaced = parts.replaced;
    this.#namespace = `${encodeName(parts.namespace)}:`;
  }

  /** What every key of this namespace starts with. */
  get prefix(): string {
    return this.#namespace;
  }

  /** A name as the tables keep it: its bytes sort as `encodeName` promises. */
  key(name: string): string {
    let key = this.#keys.get(name);
    if (key === undefined) {
      key = this.#namespace + encodeName(name);
      // Encoding costs as much as a small statement; most processes use few names, and no one needs all of them.
      if (this.#keys.size >= 1000) this.#keys.clear();
      this.#keys.set(name, key);
    }
    return key;
  }
}

/** One transaction: its moment on both clocks, and the processes to wake once it is committed. */
export class Step {
  readonly store: Store;
  readonly sql: Statements;
  readonly now: number;
  readonly wall: number;
  /** No token at or below this is given. */
  readonly floor: bigint;
  readonly rings: Set<string> = new Set<string>();

  /** @throws DriverError when another boot, time namespace or host took the file over */
  constructor(store: Store) {
    this.store = store;
    this.sql = store.sql;
    // Read when the write lock is ours: time spent waiting for it must not make anybody else's lease look younger.
    this.now = store.clock.mono();
    this.wall = store.clock.wall();
    const meta = this.get(store.sql.meta);
    if (meta?.boot !== store.identity.boot || meta.clock !== store.identity.clock)
      throw new TakenOverError();
    this.floor = BigInt(meta.floor);
  }

  /** The wall clock as a token. */
  get wallMicros(): bigint {
    return wallMicros(this.wall);
  }

  run(sql: NamedSql, args?: Readonly<Record<string, SqliteValue>>): number {
    return this.store.client.run(sql, args);
  }

  get<Row>(sql: NamedSql<Row>, args?: Readonly<Record<string, SqliteValue>>): Row | undefined {
    return this.store.client.get(sql, args);
  }

  all<Row>(sql: NamedSql<Row>, args?: Readonly<Record<string, SqliteValue>>): readonly Row[] {
    return this.store.client.all(sql, args);
  }

  /** The tombstone of a grant id, while it counts. */
  tomb(grantId: string): string | null {
    const found = this.get(this.sql.tomb, { grant: grantId });
    return found !== undefined && found.until > this.now ? found.kind : null;
  }

  /** Refuses a grant id for a while. */
  bury(grantId: string, kind: "released" | "revoked" | "exchanged", forMs: number): void {
    this.run(this.sql.bury, { grant: grantId, kind, until: this.now + forMs });
  }

  /** Why this grant id has no lease, as far as the file tells. */
  whyGone(grantId: string, takenNow: boolean): GoneReason {
    const kind = this.tomb(grantId);
    if (kind === "revoked") return "revoked";
    return takenNow || kind === "exchanged" || this.store.replaced ? "taken" : "expired";
  }
}

/** A wall clock's moment as a token: never below 1. */
export function wallMicros(wall: number): bigint {
  return BigInt(Math.max(1, Math.trunc(wall * 1000)));
}

/** Another boot, time namespace or host works with the file now: whatever this process held in it is gone. */
export class TakenOverError extends DriverError {
  constructor() {
    super(
      "config",
      "not-applied",
      "The lock file was taken over by another boot, time namespace or host, whose clock is another one: give each its own file",
    );
  }
}
