import type { Mac } from "./mac.ts";

/** The configuration of a lock manager that goes into every scope of its locks. */
export interface LockOrigin {
  /** The kind of driver: `"memory"`, `"sqlite"`, … */
  readonly driver: string;
  readonly backendId: string;
  readonly namespace: string;
}

/** The scope of a lock: a hash of configuration only, so that a failover or a new host name does not change it. */
export function scopeOf(
  { driver, backendId, namespace }: LockOrigin,
  name: string,
  mac: Mac,
): string {
  return mac.sha256(JSON.stringify([driver, backendId, namespace, name])).slice(0, 27);
}
