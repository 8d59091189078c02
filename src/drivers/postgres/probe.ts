import type { Clock } from "../../core/clock.ts";
import type { Finding } from "../../core/driver.ts";
import type { Connection } from "./connection.ts";
import { literal, type Tables } from "./options.ts";

/** How far apart the clocks may be before people are told; leases depend on rates, not on this. */
const SKEW_WARN_MS = 1000;
/** Dead rows beyond which the tables are not cleaned up as they should be. */
const DEAD_ROWS_WARN = 100_000;

/** What one statement finds out, as JSON. */
interface Facts {
  readonly version: number;
  readonly standby: boolean;
  readonly readOnly: string;
  readonly fsync: string;
  readonly fullPages: string;
  readonly syncCommit: string;
  readonly syncNames: string;
  readonly senders: number | null;
  readonly encoding: string;
  readonly persistence: string | null;
  readonly rights: string | null;
  readonly deadRows: number | null;
  /** Pids of sessions that have advisory locks and are idle in a transaction. */
  readonly idleHolders: readonly number[];
  /** How many have some, and do not show this role what they do. */
  readonly hiddenHolders: number;
  readonly cache: number | null;
  readonly now: number;
}

/** What the database is, as far as it says so. */
export async function probeServer(
  connection: Connection,
  clock: Clock,
  tables: Tables,
  pooled: boolean,
  dueAt: number,
): Promise<Finding[]> {
  const before = clock.wall();
  const [row = "{}"] = await connection.script(question(tables), dueAt);
  const facts = JSON.parse(row) as Facts;
  return [
    version(facts),
    ...role(facts),
    ...durability(facts),
    ...standbys(facts),
    ...table(facts, tables),
    pooled
      ? {
          name: "pooler",
          value: "yes, taken for one in transaction mode",
          verdict: "warn",
          advice:
            'waiters poll, since notifications do not come through: give the driver a direct address, or say `pooler: "session"` if it is one',
        }
      : { name: "pooler", value: "none", verdict: "ok" },
    ...holders(facts),
    serverClock(facts, (before + clock.wall()) / 2),
  ];
}

function question(t: Tables): string {
  const all = [t.locks, t.shares, t.waiters, t.tombs].map(literal);
  const may = all.map(
    (name) => `has_table_privilege(to_regclass(${name}),
  'SELECT') AND has_table_privilege(to_regclass(${name}), 'INSERT') AND has_table_privilege(to_regclass(${name}),
  'UPDATE') AND has_table_privilege(to_regclass(${name}), 'DELETE')`,
  );
  const setting = (name: string): string => `current_setting('${name}')`;
  return /* sql */ `SELECT json_build_object('version', current_setting('server_version_num')::int,
'standby', pg_is_in_recovery(), 'readOnly', ${setting("default_transaction_read_only")},
'fsync', ${setting("fsync")}, 'fullPages', ${setting("full_page_writes")},
'syncCommit', ${setting("synchronous_commit")}, 'syncNames', ${setting("synchronous_standby_names")},
'senders', (SELECT count(*) FROM pg_stat_replication WHERE pid IS NOT NULL),
'encoding', ${setting("server_encoding")},
'persistence', (SELECT string_agg(DISTINCT relpersistence::text, '') FROM pg_class
  WHERE oid IN (${all.map((name) => `to_regclass(${name})`).join(", ")})),
'rights', CASE WHEN NOT (${may.join(" AND ")}) THEN 'rows of the tables'
  WHEN NOT has_sequence_privilege(to_regclass(${t.tokens}), 'USAGE') THEN 'numbers of the sequence' END,
'deadRows', (SELECT sum(n_dead_tup) FROM pg_stat_user_tables
  WHERE relid IN (${all.map((name) => `to_regclass(${name})`).join(", ")})),
'idleHolders', (SELECT coalesce(json_agg(DISTINCT l.pid), '[]') FROM pg_locks AS l JOIN pg_stat_activity AS a
  USING (pid) WHERE l.locktype = 'advisory' AND l.granted AND a.state LIKE 'idle in transaction%'),
'hiddenHolders', (SELECT count(DISTINCT l.pid) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
  WHERE l.locktype = 'advisory' AND l.granted AND a.state IS NULL),
'cache', (SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass(${t.tokens})),
'now', extract(epoch FROM clock_timestamp())::float8 * 1000)::text`;
}

function version({ version: number }: Facts): Finding {
  const value = `${Math.trunc(number / 10_000)}.${number % 10_000}`;
  if (number >= 120_000) return { name: "version", value, verdict: "ok" };
  const advice = "use PostgreSQL 12 or newer; the tests run with 15";
  return { name: "version", value, verdict: "warn", advice };
}

function role({ standby, readOnly, encoding }: Facts): Finding[] {
  const findings: Finding[] = [];
  if (standby)
    findings.push({
      name: "role",
      value: "standby",
      verdict: "refuse",
      advice: "connect to the primary: a standby takes no writes",
    });
  if (!standby && readOnly === "on")
    findings.push({
      name: "default_transaction_read_only",
      value: "on",
      verdict: "warn",
      advice: "the driver's transactions say READ WRITE where they can; set it off for its role",
    });
  if (encoding !== "UTF8")
    findings.push({
      name: "server_encoding",
      value: encoding,
      verdict: "warn",
      advice: "use a database in UTF8: the labels of holders may hold what this one cannot store",
    });
  return findings;
}

function durability({ fsync, fullPages, syncCommit }: Facts): Finding[] {
  const findings: Finding[] = [];
  if (fsync === "on") findings.push({ name: "fsync", value: fsync, verdict: "ok" });
  else
    findings.push({
      name: "fsync",
      value: fsync,
      verdict: "refuse",
      advice:
        "a crash of the host can bring tokens back that were given: set it on, or pass `trustSettings: true` where that is known",
    });
  if (fullPages !== "on")
    findings.push({
      name: "full_page_writes",
      value: fullPages,
      verdict: "warn",
      advice: "right only on a file system that never tears a page",
    });
  const raised = syncCommit === "off" || syncCommit === "local";
  findings.push({
    name: "synchronous_commit",
    value: raised ? `${syncCommit}, raised to on for each grant and renewal` : syncCommit,
    verdict: "ok",
  });
  return findings;
}

function standbys({ syncNames, senders }: Facts): Finding[] {
  const name = "standbys";
  if (syncNames !== "") return [{ name, value: `synchronous: ${syncNames}`, verdict: "ok" }];
  if (senders === null || senders === 0) return [{ name, value: "none seen", verdict: "ok" }];
  return [
    {
      name,
      value: `${senders}, asynchronous`,
      verdict: "warn",
      advice:
        "a promoted standby can lack the last grants and repeat their tokens: name one in synchronous_standby_names, and guard the resource",
    },
  ];
}

function table(facts: Facts, tables: Tables): Finding[] {
  const name = "tables";
  const { persistence, rights, deadRows, cache } = facts;
  if (persistence === null)
    return [{ name, value: "missing", verdict: "warn", advice: "run `ringfence schema apply`" }];
  const findings: Finding[] = [];
  if (persistence !== "p")
    findings.push({
      name,
      value: "UNLOGGED",
      verdict: "refuse",
      advice: "a crash empties them: ALTER TABLE … SET LOGGED",
    });
  if (cache !== null && cache > 1)
    findings.push({
      name: "sequence",
      value: `CACHE ${cache}`,
      verdict: "refuse",
      advice: `numbers would not rise from session to session: ALTER SEQUENCE ${tables.sequence} CACHE 1`,
    });
  if (rights !== null)
    findings.push({
      name: "rights",
      value: `this role may not use the ${rights}`,
      verdict: "refuse",
      advice:
        "GRANT SELECT, INSERT, UPDATE, DELETE on the tables, and USAGE, SELECT on the sequence",
    });
  if ((deadRows ?? 0) > DEAD_ROWS_WARN)
    findings.push({
      name: "dead rows",
      value: String(deadRows),
      verdict: "warn",
      advice:
        "autovacuum does not keep up: look for old transactions and replication slots that hold it back",
    });
  return findings.length > 0 ? findings : [{ name, value: "there", verdict: "ok" }];
}

function holders({ idleHolders, hiddenHolders }: Facts): Finding[] {
  const name = "advisory locks";
  const findings: Finding[] = [];
  if (idleHolders.length > 0)
    findings.push({
      name,
      value: `held by sessions that are idle in a transaction: pid ${idleHolders.slice(0, 5).join(", ")}${idleHolders.length > 5 ? ", …" : ""}`,
      verdict: "warn",
      advice:
        "pg_stat_activity says whose they are, pg_terminate_backend(pid) ends one; idle_in_transaction_session_timeout ends such sessions by itself",
    });
  if (hiddenHolders > 0)
    findings.push({
      name,
      value: `held by ${hiddenHolders} sessions of other roles, which do not show this one what they do`,
      verdict: "ok",
      advice: "GRANT pg_read_all_stats to this role to be told of idle ones",
    });
  return findings;
}

function serverClock({ now }: Facts, here: number): Finding {
  const skew = now - here;
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
