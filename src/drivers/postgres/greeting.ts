import { APPLICATION_NAME } from "./client.ts";
import type { Connection } from "./connection.ts";
import { encoded } from "./options.ts";

/** How the sessions of one process show in `pg_stat_activity`. */
export function applicationName(host: string): string {
  return `${APPLICATION_NAME} ${host}`.slice(0, 63);
}

/**
 * Finds out whether a session is the server's own, and then sets what its statements rely on. A pooler answers the
 * start-up itself, with a pid of its own making; five statements on one pid prove nothing, since it may hand the same
 * server session to the next client in between.
 */
export async function isDirect(
  connection: Connection,
  dueAt: number,
  pooler: "session" | undefined,
  host: string,
): Promise<boolean> {
  // `is_local` where it is a pooler's: whatever is set there would stay for the next one who is given that session.
  const local = pooler === "session" ? "false" : `pg_backend_pid() <> ${connection.pid}`;
  const set = (name: string, value: string): string =>
    `set_config('${name}', ${encoded(value)}, ${local})`;
  const settings = [
    set("application_name", applicationName(host)),
    set("default_transaction_isolation", "read committed"),
    set("lock_timeout", "5000"),
    set("statement_timeout", "0"),
    set("idle_in_transaction_session_timeout", "2000"),
    set("tcp_keepalives_idle", "10"),
    set("tcp_keepalives_interval", "5"),
    set("tcp_keepalives_count", "3"),
  ];
  const [pid] = await connection.script(
    `SELECT concat(pg_backend_pid(), '|', ${settings.join(", ")})`,
    dueAt,
  );
  return pooler === "session" || Number.parseInt(pid ?? "", 10) === connection.pid;
}
