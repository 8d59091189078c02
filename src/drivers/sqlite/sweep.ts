import type { SqliteClient } from "./client.ts";
import type { Store } from "./step.ts";
import { wallMicros } from "./step.ts";

/** Releases between two sweeps. */
const EVERY = 256;
/** Rows looked at in one sweep: more than were added since the last one, so that it comes around. */
const SIZE = 1024;
/** A released name's row is kept for this long, and no longer than for the last `SAMPLES` × `EVERY` releases. */
const IDLE_MS = 60_000;
const SAMPLES = 4;
/** How long a name remembers that its last holder vanished. */
const ABANDONED_MS = 24 * 3_600_000;
/** How far a name's counter may be ahead of the wall clock and of the floor, in µs, and still become the floor. */
const AHEAD = 60_000_000n;
/** How long a dead waiter's place is remembered. */
const DEAD_WAITER_MS = 600_000;

/**
 * Cleans up in passing, so that the tables stay as small as what is in use: released names become part of the
 * table-wide token floor, and dead waiters, spent leases and old tombstones go.
 */
export class Sweeper {
  #releases = 0;
  #from = "";
  /** When the last sweeps were. */
  readonly #times: number[] = [];

  /** Counts releases; sweeps when it is time. */
  released(store: Store, count: number): void {
    this.#releases += count;
    if (this.#releases < EVERY) return;
    this.#releases = 0;
    this.sweep(store);
  }

  /** Looks at the next part of the tables, in one transaction. */
  sweep(store: Store): void {
    const { client, clock } = store;
    const now = clock.mono();
    this.#times.push(now);
    const crowdedOut = this.#times.length > SAMPLES ? (this.#times.shift() ?? 0) : -Infinity;
    const idle = Math.max(now - IDLE_MS, crowdedOut);
    const wall = wallMicros(clock.wall());
    this.#from = client.transaction(() =>
      part(client, store, { from: this.#from, now, idle, wall }),
    );
  }
}

function part(
  client: SqliteClient,
  { sql }: Store,
  at: { readonly from: string; readonly now: number; readonly idle: number; readonly wall: bigint },
): string {
  const { from, now, idle, wall } = at;
  const last = client.get(sql.sweepTo, { from, size: SIZE })?.key;
  // Above every key: they are ASCII.
  const to = last ?? "\u007f";
  const floor = BigInt(client.get(sql.meta)?.floor ?? 0);
  const ceiling = (floor > wall ? floor : wall) + AHEAD;
  const spent = { from, to, idle, old: now - ABANDONED_MS, ceiling };
  client.run(sql.dropDeadWaiters, { from, to, dead: now - DEAD_WAITER_MS });
  client.run(sql.sweepShares, { from, to, now });
  client.run(sql.sweepIdle, { from, to, now });
  client.run(sql.sweepFloor, spent);
  client.run(sql.sweepLocks, spent);
  client.run(sql.dropTombs, { now });
  return last ?? "";
}
