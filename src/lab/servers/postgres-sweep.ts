/** What the driver's statements that clean up do. */
import type { Access, Waiting } from "./postgres-access.ts";
import type { LockRow } from "./postgres-rows.ts";
import { type Args, above, arg, inUnits, largest, type Model, us } from "./postgres-values.ts";

type Rows = Waiting<readonly string[]>;

const MINUTE_US = 60_000_000;
const DAY_US = 1440 * MINUTE_US;

/** Whether nobody uses a name any more, and its numbers are behind the sequence. */
function isSpent(at: Access, row: LockRow): boolean {
  const now = at.clock();
  const idle = row.state === 0 && (!row.abandoned || row.expires < now - DAY_US);
  const dead = row.state === 1 && row.expires + us(row.delay_ms) < now - DAY_US;
  const last = largest(above(row) - 1n, row.raised);
  return (idle || dead) && row.since < now - MINUTE_US && last <= at.engine.lastValue;
}

function isEmptied(at: Access, { key, state }: LockRow): boolean {
  const none = (table: "waiters" | "shares" | "tombs"): boolean =>
    at.rows(table, (row) => row.key === key).length === 0;
  return state === 2 && none("waiters") && none("shares") && none("tombs");
}

function* sweepAside(at: Access): Rows {
  yield* at.change(
    "tombs",
    (row) => row.until < at.clock(),
    () => undefined,
  );
  yield* at.change(
    "shares",
    (row) => row.expires + us(row.delay_ms) < at.clock(),
    () => undefined,
  );
  yield* at.change(
    "waiters",
    (row) => row.until < at.clock() - 10 * MINUTE_US,
    () => undefined,
  );
  return [];
}

function* idle(at: Access, args: Args): Rows {
  return at
    .rows("locks", (row) => isSpent(at, row) || isEmptied(at, row))
    .slice(0, Number(args[0]))
    .map(({ key }) => key);
}

/** How long the sweep waits for the table, in milliseconds. */
const SWEEP_PATIENCE_MS = 50;

function* sweepLocks(at: Access, args: Args): Rows {
  const keys = new Set(JSON.parse(arg(args, 1)) as string[]);
  at.tx.lockTimeoutMs = SWEEP_PATIENCE_MS;
  yield* at.lockTable();
  // Each of its statements sees what was committed before the table was had.
  const then = at.again();
  for (const row of then.rows("locks", ({ key }) => keys.has(key))) {
    const emptied = isEmptied(then, row);
    if (!emptied && !isSpent(then, row)) continue;
    const now = then.tryLock("locks", row.key);
    if (now === undefined) continue;
    if (emptied) then.put("locks", row.key, { ...now, state: now.grant_id === null ? 0 : 1 });
    const freed = then.newest("locks", row.key);
    if (freed !== undefined && isSpent(then, freed)) then.put("locks", row.key, undefined);
  }
  return [inUnits(SWEEP_PATIENCE_MS)];
}

export const sweepModel: Readonly<Record<string, Model>> = { sweepAside, idle, sweepLocks };
