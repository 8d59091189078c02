import { DriverError } from "../../core/driver.ts";
import { type Connection, rowsOf } from "./connection.ts";
import { IDLE_S } from "./sql-parts.ts";

/** The longest wait for a row that another step has, in seconds. */
const LOCK_WAIT_S = 5;

/**
 * What our statements rely on, whatever the server, the user or `init_connect` has set. The comments are read by the one
 * kind of server only: a limit for statements has another name in each.
 */
const SETTINGS = `SET SESSION autocommit = 1, completion_type = 0, sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00',
  timestamp = DEFAULT, innodb_lock_wait_timeout = ${LOCK_WAIT_S}, lock_wait_timeout = ${LOCK_WAIT_S},
  wait_timeout = ${IDLE_S}, sql_safe_updates = 0, sql_big_selects = 1, sql_select_limit = DEFAULT, sql_auto_is_null = 0
  /*M!100101 , max_statement_time = 0 */ /*M!100300 , idle_transaction_timeout = 0 */ /*!80000 , max_execution_time = 0 */`;

/**
 * Sets a new session up. A proxy that shares the server's sessions out answers the start-up itself, with a number of its
 * own making: what is set in a session would hold for the statements of others, and not for all of ours.
 * @throws DriverError for such a proxy, unless it is said to keep to one session
 */
export async function greet(
  connection: Connection,
  dueAt: number,
  pooler: "session" | undefined,
): Promise<void> {
  const text = [
    "SET NAMES utf8mb4",
    SETTINGS,
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SELECT CONNECTION_ID()",
  ].join(";\n");
  const [row] = rowsOf((await connection.script(text, dueAt)).at(-1));
  // The start-up message has room for 32 bits of it.
  const id = Number(BigInt(row?.[0] ?? 0) & 0xff_ff_ff_ffn);
  if (pooler === "session" || id === connection.id >>> 0) return;
  throw new DriverError(
    "config",
    "not-applied",
    'A proxy between this process and MySQL shares the sessions of the server out (its start-up told another number than CONNECTION_ID()). Give the driver a direct address, or say `pooler: "session"` if each client has one session of one server for as long as it is connected',
  );
}
