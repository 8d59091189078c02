/** The lock that keeps other processes from a file where the boot id cannot be read. */
import { DriverError } from "../../core/driver.ts";
import { type OpenDatabase, SqliteClient } from "./client.ts";
import { isBusy } from "./errors.ts";

interface Entry {
  readonly client: SqliteClient;
  users: number;
}

/** By file and process identity: managers of one process share it. */
const held = new Map<string, Entry>();

/**
 * Takes the file's sole-user lock: a transaction left open on a database beside it, so the system drops it when the
 * process ends, however it ends. Returns what gives it back.
 * @throws DriverError when another process has it
 */
export function takeSoleUse(path: string, hostId: string, open: OpenDatabase): () => void {
  const id = `${path}\n${hostId}`;
  let entry = held.get(id);
  if (entry === undefined) {
    entry = { client: lockBeside(path, open), users: 0 };
    held.set(id, entry);
  }
  const taken = entry;
  taken.users += 1;
  let given = false;
  return () => {
    if (given) return;
    given = true;
    taken.users -= 1;
    if (taken.users > 0) return;
    held.delete(id);
    taken.client.exec("ROLLBACK");
    taken.client.close();
  };
}

/** Throws when a process without a boot id uses the file right now. */
export function refuseBesideSoleUser(path: string, open: OpenDatabase): void {
  const client = lockBeside(path, open);
  client.exec("ROLLBACK");
  client.close();
}

function lockBeside(path: string, open: OpenDatabase): SqliteClient {
  const client = new SqliteClient(open(`${path}-sole-user`), true);
  try {
    client.exec("PRAGMA busy_timeout = 0");
    client.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    client.close();
    if (!isBusy(error)) throw error;
    throw new DriverError(
      "config",
      "not-applied",
      `The lock file ${path} is used by a process that cannot read its boot id, so no second one may use it: nobody could tell whose clock is right. Make /proc/sys/kernel/random/boot_id readable there, or use another file`,
      { cause: error },
    );
  }
  return client;
}
