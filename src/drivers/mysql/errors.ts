import { DriverError } from "../../core/driver.ts";
import { LinkError } from "../sql/link-error.ts";

/** The server's number of a complaint; `undefined` for what did not come from it. */
export function numberOf(error: unknown): number | undefined {
  const { errno, sqlState, sqlMessage } = (error ?? {}) as Readonly<Record<string, unknown>>;
  // Before the handshake is over a complaint has no state yet.
  const said = typeof sqlState === "string" || typeof sqlMessage === "string";
  return typeof errno === "number" && said ? errno : undefined;
}

/** Killed, the server going down, idle for too long, packets that cannot be read: the session is over. */
const ENDS = [1053, 1152, 1153, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031];

/** Whether the session can be used no more after this complaint. */
export function endsSession(error: unknown): boolean {
  const { fatal } = (error ?? {}) as { readonly fatal?: unknown };
  return fatal === true || ENDS.includes(numberOf(error) ?? 0);
}

type Verdict = readonly [kind: DriverError["kind"], outcome: DriverError["outcome"]];

const table = (verdict: Verdict, numbers: readonly number[]): [number, Verdict][] =>
  numbers.map((number) => [number, verdict]);

/** A statement that failed changed nothing, but for those that are told while a transaction commits. */
const VERDICTS: ReadonlyMap<number, Verdict> = new Map([
  // A wait for a row that took too long, a deadlock, a row that changed, a certificate that failed: asked again it may do.
  ...table(["busy", "not-applied"], [1205, 1213, 1020, 3101]),
  // Statement timeouts that somebody set for the whole server.
  ...table(["timeout", "not-applied"], [1969, 3024]),
  // Too many sessions, no memory or disk, a server that only reads.
  ...table(
    ["unavailable", "not-applied"],
    [1040, 1203, 1226, 1021, 1037, 1038, 1041, 1114, 1206, 1290, 1792, 1836, 3100],
  ),
  // Rights, passwords, databases and tables that are not there, a binary log that cannot take what we write.
  ...table(
    ["config", "not-applied"],
    [
      1044, 1045, 1046, 1049, 1054, 1064, 1129, 1130, 1142, 1143, 1146, 1227, 1251, 1286, 1370,
      1665, 1698, 1820, 1862, 3118, 3159, 3161, 4151,
    ],
  ),
]);

/** A driver's error from whatever the client, the session or the server gave. */
export function asMysqlError(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const number = numberOf(error);
  if (number !== undefined) {
    const [kind, outcome] = VERDICTS.get(number) ?? ["unavailable", "unknown"];
    const text = `MySQL said: ${(error as Error).message} (${number})`;
    return new DriverError(kind, outcome, text, { cause: error });
  }
  if (error instanceof LinkError) {
    // A refused password or a missing database is found out while connecting, where nothing has been sent yet.
    const refused = error.sent ? undefined : numberOf(error.cause);
    const config = refused !== undefined && VERDICTS.get(refused)?.[0] === "config";
    return new DriverError(
      config ? "config" : error.late ? "timeout" : "unavailable",
      error.sent ? "unknown" : "not-applied",
      error.message,
      { cause: error },
    );
  }
  return new DriverError("unavailable", "unknown", "the MySQL client failed", { cause: error });
}
