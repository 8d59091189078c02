import type { Clock } from "../../core/clock.ts";
import type { Finding } from "../../core/driver.ts";
import { type Connection, rowsOf } from "./connection.ts";
import { encoded, type Tables } from "./options.ts";
import { NOW } from "./sql-parts.ts";

/** How far apart the clocks may be before people are told; leases depend on rates, not on this. */
const SKEW_WARN_MS = 1000;

/** What the server says of itself; what it does not know is not there. */
const VARIABLES = [
  "version",
  "version_comment",
  "innodb_flush_log_at_trx_commit",
  "innodb_flush_method",
  "innodb_doublewrite",
  "log_bin",
  "sync_binlog",
  "binlog_format",
  "read_only",
  "super_read_only",
  "innodb_read_only",
  "wsrep_on",
  "group_replication_group_name",
];

type Settings = ReadonlyMap<string, string>;

/** What the database is, as far as it says so. */
export async function probeServer(
  connection: Connection,
  clock: Clock,
  tables: Tables,
  pooler: "session" | undefined,
  dueAt: number,
): Promise<Finding[]> {
  const before = clock.wall();
  const [now, variables, status, engines] = await connection.script(
    [
      `SELECT ${NOW}`,
      `SHOW GLOBAL VARIABLES WHERE Variable_name IN (${VARIABLES.map(encoded).join(", ")})`,
      "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'wsrep_ready')",
      enginesOf(tables),
    ].join(";\n"),
    dueAt,
  );
  const here = (before + clock.wall()) / 2;
  const pairs = [...rowsOf(variables), ...rowsOf(status)];
  const settings = new Map(
    pairs.map(([name, value]) => [(name ?? "").toLowerCase(), value ?? ""] as const),
  );
  return [
    version(settings),
    ...role(settings),
    ...durability(settings),
    replicas(settings),
    tablesFinding(rowsOf(engines).map(([engine]) => engine ?? "none")),
    {
      name: "proxy",
      value: pooler === undefined ? "none" : "one that keeps to a session, as it was said",
      verdict: "ok",
    },
    serverClock(Number(rowsOf(now)[0]?.[0] ?? 0) / 1000 - here),
  ];
}

function enginesOf({ database, prefix }: Tables): string {
  const names = ["meta", "locks", "shares", "waiters", "tombs"].map((name) =>
    encoded(prefix + name),
  );
  const schema = database === undefined ? "DATABASE()" : encoded(database);
  return `SELECT engine FROM information_schema.tables WHERE table_schema = ${schema} AND table_name IN (${names.join(", ")})`;
}

function version(settings: Settings): Finding {
  const number = settings.get("version") ?? "";
  const maria = /mariadb/i.test(number + (settings.get("version_comment") ?? ""));
  const [major = 0, minor = 0] = number.split(".").map((part) => Number.parseInt(part, 10));
  const value = `${maria ? "MariaDB" : "MySQL"} ${number}`;
  if (maria ? major > 10 || (major === 10 && minor >= 6) : major >= 8)
    return { name: "version", value, verdict: "ok" };
  return {
    name: "version",
    value,
    verdict: "refuse",
    advice: "use MariaDB 10.6 or MySQL 8.0, or newer: older ones lack SKIP LOCKED",
  };
}

function on(settings: Settings, name: string): boolean {
  return ["ON", "1"].includes((settings.get(name) ?? "").toUpperCase());
}

function role(settings: Settings): Finding[] {
  const findings: Finding[] = [];
  if (["read_only", "super_read_only", "innodb_read_only"].some((name) => on(settings, name)))
    findings.push({
      name: "role",
      value: "reads only",
      verdict: "refuse",
      advice: "connect to the primary: a replica takes no writes of ours",
    });
  if (on(settings, "wsrep_on") || (settings.get("group_replication_group_name") ?? "") !== "")
    findings.push({
      name: "cluster",
      value: "several servers that take writes",
      verdict: "warn",
      advice:
        "leases end by the clock of whichever server is asked: give all processes the address of one and the same",
    });
  return findings;
}

/** Nothing here can be raised for one session: where the server may forget a commit, a token can come twice. */
function durability(settings: Settings): Finding[] {
  const findings: Finding[] = [];
  const check = (name: string, value: string, sound: boolean, advice: string): void => {
    const facts = { name: `durability of ${name}`, value };
    findings.push(sound ? { ...facts, verdict: "ok" } : { ...facts, verdict: "refuse", advice });
  };
  const known =
    "a crash can bring tokens back that were given: pass `trustSettings: true` where that is known";
  const flush = settings.get("innodb_flush_log_at_trx_commit") ?? "unknown";
  // 3 is MariaDB's: it syncs once more.
  check(
    "the log",
    flush,
    flush === "1" || flush === "3",
    `innodb_flush_log_at_trx_commit = 1; ${known}`,
  );
  const method = settings.get("innodb_flush_method") ?? "unknown";
  const lax = ["nosync", "littlesync"].includes(method.toLowerCase());
  check("writes", method, !lax, `innodb_flush_method = O_DIRECT; ${known}`);
  if (on(settings, "log_bin")) {
    // What is prepared and not in the binary log is rolled back by the recovery.
    const sync = settings.get("sync_binlog") ?? "unknown";
    check("the binary log", `sync_binlog ${sync}`, sync === "1", `sync_binlog = 1; ${known}`);
    const format = settings.get("binlog_format") ?? "ROW";
    if (format === "STATEMENT")
      findings.push({
        name: "binlog_format",
        value: format,
        verdict: "refuse",
        advice: "binlog_format = ROW or MIXED: with STATEMENT the server refuses READ COMMITTED",
      });
  }
  if ((settings.get("innodb_doublewrite") ?? "ON").toUpperCase() === "OFF")
    findings.push({
      name: "innodb_doublewrite",
      value: "OFF",
      verdict: "warn",
      advice: "right only on a file system that never tears a page",
    });
  return findings;
}

function replicas(settings: Settings): Finding {
  const connected = settings.get("slaves_connected");
  const name = "replicas";
  if (connected === "0") return { name, value: "none seen", verdict: "ok" };
  if (connected === undefined) return { name, value: "not told by this server", verdict: "ok" };
  return {
    name,
    value: `${connected} connected`,
    verdict: "warn",
    advice:
      "one that is promoted can lack the last grants and repeat their tokens, also where semi-synchronous replication has fallen back: guard the resource",
  };
}

function tablesFinding(engines: readonly string[]): Finding {
  const name = "tables";
  if (engines.length < 5)
    return { name, value: "missing", verdict: "warn", advice: "run `ringfence schema apply`" };
  const other = engines.find((engine) => engine.toLowerCase() !== "innodb");
  if (other === undefined) return { name, value: "there", verdict: "ok" };
  return {
    name,
    value: `of the engine ${other}`,
    verdict: "refuse",
    advice: "it has no transactions: ALTER TABLE … ENGINE = InnoDB",
  };
}

function serverClock(skew: number): Finding {
  const value = `${Math.round(Math.abs(skew))} ms ${skew < 0 ? "behind" : "ahead of"} this host`;
  if (Math.abs(skew) < SKEW_WARN_MS) return { name: "clock", value, verdict: "ok" };
  return {
    name: "clock",
    value,
    verdict: "warn",
    advice:
      "leases end by the server's clock: have it disciplined by slewing, for a step ends leases or keeps dead ones",
  };
}
