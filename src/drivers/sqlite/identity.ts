/** Whose monotonic clock the times in a file are of, and what becomes of them under another one. */
import { DriverError, type Host } from "../../core/driver.ts";
import type { SqliteClient } from "./client.ts";
import type { Sharing } from "./file.ts";
import type { MetaRow, Statements } from "./tables.ts";

/** One monotonic clock: a boot and a time namespace in it. */
export interface Identity {
  /** A boot id; `process:<id>` where none can be read: then the clock is known to this process only. */
  readonly boot: string;
  readonly clock: string;
}

const PROCESS = "process:";
/** Tombstones of another boot are kept for this long from now. */
const ADOPTED_TOMBS_MS = 60_000;

/** The identity of a host. */
export function identityOf(host: Host): Identity {
  return {
    boot: host.bootId ?? PROCESS + host.id,
    clock: host.timeNamespace ?? "unknown",
  };
}

/** Whether only one process at a time may use a file under this identity. */
export function isLonely(boot: string | null): boolean {
  return boot?.startsWith(PROCESS) ?? false;
}

/**
 * Makes the file this identity's, inside a transaction. The same boot under another time namespace is refused: both
 * clocks run, and each would take the other's leases for old. After another boot nobody is left who could hold
 * anything, unless other hosts may see the file (`sharing`): then leases are honoured until their wall-clock end plus
 * their ttl.
 * @throws DriverError
 */
export function adopt(
  client: SqliteClient,
  sql: Statements,
  parts: {
    readonly me: Identity;
    readonly sharing: Sharing;
    readonly now: number;
    readonly wall: number;
    readonly file: string;
  },
): void {
  const { me, sharing, now, wall, file } = parts;
  const meta: MetaRow | undefined = client.get(sql.meta);
  const stored = meta?.boot ?? null;
  if (stored === me.boot && meta?.clock === me.clock) return;
  if (stored === me.boot)
    throw refused(
      file,
      "belongs to processes of another time namespace on this host, whose clock is another one: run them in one time namespace, or give each its own file",
    );
  if (stored !== null && isLonely(me.boot) && !isLonely(stored) && inUse(client, sql))
    throw refused(
      file,
      "holds leases of processes that know their boot, and this one cannot read its boot id (is /proc hidden?): make /proc/sys/kernel/random/boot_id readable, or use another file",
    );
  if (stored !== null && sharing === "unknown") {
    client.run(sql.adoptShares, { now, wall });
    client.run(sql.clearWaiters);
    client.run(sql.adoptLocks, { now, wall });
    client.run(sql.adoptTombs, { until: now + ADOPTED_TOMBS_MS });
  } else if (stored !== null) {
    client.run(sql.voidLocks);
    client.run(sql.clearShares);
    client.run(sql.clearWaiters);
    client.run(sql.clearTombs);
  }
  client.run(sql.setIdentity, { boot: me.boot, clock: me.clock });
}

function inUse(client: SqliteClient, sql: Statements): boolean {
  return (client.get(sql.inUse)?.n ?? 0) > 0;
}

function refused(file: string, why: string): DriverError {
  return new DriverError("config", "not-applied", `The lock file ${file} ${why}`);
}
