// The two statements of an uncontended acquire and release, issued on a connection of their own in the driver's mode.
import { hostname } from "node:os";
import { encodeHolder } from "../src/core/holder.ts";
import { loadClient, type SqliteValue } from "../src/drivers/sqlite/client.ts";
import { statements } from "../src/drivers/sqlite/sql.ts";

/** As many as the driver's have: a longer row is more work. */
const ID_CHARS = 27;
const KEY = "default:raw";
const TTL_MS = 30_000;
const HOLDER = encodeHolder({ label: "", host: hostname(), pid: process.pid, metadata: {} });

interface RawCycles {
  readonly client: string;
  /** With values by name, as the statements say them. */
  readonly named: () => void;
  /** With values as a list in the order of those names, where the client takes it: the driver gives it one then. */
  readonly listed: (() => void) | null;
  readonly close: () => void;
}

/** Cycles of the raw statements, on a file that the driver has made. */
export async function rawCycles(path: string): Promise<RawCycles> {
  const { name, open } = await loadClient();
  const db = open(path);
  // What the driver sets on its own connection.
  db.exec("PRAGMA busy_timeout = 10");
  db.exec("PRAGMA synchronous = NORMAL");
  const sql = statements("ringfence_");
  const { boot, clock } = db.prepare(sql.meta.text).get({}) as { boot: string; clock: string };
  const [grantIdle, releaseSole] = [
    db.prepare(sql.grantIdle.text),
    db.prepare(sql.releaseSole.text),
  ];
  let n = 0;
  const times = (): { grant: string; now: number; wall: number } => {
    n += 1;
    const now = Number(process.hrtime.bigint()) / 1e6;
    return { grant: String(n).padStart(ID_CHARS, "r"), now, wall: Date.now() };
  };
  const check = (granted: unknown, changes: number | bigint): void => {
    if (granted === undefined || Number(changes) !== 1) throw new Error("a raw statement failed");
  };
  const cycles = {
    client: name,
    named: () => {
      const { grant, now, wall } = times();
      const identity = { key: KEY, grant, now, boot, clock };
      const granted = grantIdle.get({
        ...identity,
        holder: HOLDER,
        ttl: TTL_MS,
        delay: 0,
        expires: now + TTL_MS,
        wallEnd: wall + TTL_MS,
        wall,
        least: BigInt(wall * 1000),
        more: 0n,
      });
      check(granted, releaseSole.run(identity).changes);
    },
    listed: () => {
      const { grant, now, wall } = times();
      const [expires, wallEnd, least] = [now + TTL_MS, wall + TTL_MS, BigInt(wall * 1000)];
      const [first, second]: SqliteValue[][] = [
        [KEY, grant, HOLDER, TTL_MS, 0, expires, wallEnd, wall, 0n, least, boot, clock, now],
        [now, KEY, grant, boot, clock],
      ];
      // The clients' common type knows names only.
      const granted = grantIdle.get(first as never);
      check(granted, releaseSole.run(second as never).changes);
    },
    close: () => db.close(),
  };
  return name === "libsql" ? cycles : { ...cycles, listed: null };
}
