import type { Clock } from "../../core/clock.ts";
import type { Finding } from "../../core/driver.ts";
import { codeOf } from "./errors.ts";

/** What the driver was told, and must therefore find. */
export interface Expected {
  readonly cluster: boolean;
  readonly efficiencyOnly: boolean;
  /** 0: it does not wait for replicas. */
  readonly replicas: number;
}

type Facts = Readonly<Record<string, string>>;

/** Sends a server one command. */
interface Sender {
  send(args: readonly string[], dueAt: number): Promise<unknown>;
}

/** How far apart the clocks may be before people are told; leases depend on rates, not on this. */
const SKEW_WARN_MS = 1000;

/** What one server is, as far as it says so. A server that refuses to tell is a warning, not an error. */
export async function probeServer(
  connection: Sender,
  clock: Clock,
  expected: Expected,
  dueAt: number,
): Promise<Finding[]> {
  const info = await read(connection, ["INFO"], dueAt);
  const config = await read(connection, ["CONFIG", "GET", "*"], dueAt);
  const findings: Finding[] = [];
  if (info === undefined)
    findings.push({
      name: "INFO",
      value: "refused",
      verdict: "warn",
      advice: "allow INFO, so that the settings can be checked",
    });
  const facts = { ...config, ...info };
  findings.push(
    ...version(facts),
    ...role(facts, expected),
    ...eviction(facts, expected),
    ...persistence(facts),
    ...replicas(facts, expected),
    await serverClock(connection, clock, dueAt),
  );
  return findings;
}

/** The lines of INFO, or the pairs of CONFIG GET; `undefined` where this user may not ask. */
async function read(
  connection: Sender,
  command: readonly string[],
  dueAt: number,
): Promise<Facts | undefined> {
  try {
    const reply = await connection.send(command, dueAt);
    if (typeof reply === "string")
      return Object.fromEntries(
        reply.split("\r\n").flatMap((line) => {
          const colon = line.indexOf(":");
          return colon < 1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
        }),
      );
    // A list of names and values, or an object or map where the protocol has one.
    if (reply instanceof Map) return Object.fromEntries(reply) as Facts;
    if (!Array.isArray(reply)) return reply as Facts;
    const list = reply as readonly string[];
    return Object.fromEntries(
      list.flatMap((key, i) => (i % 2 === 0 ? [[key, list[i + 1] ?? ""]] : [])),
    );
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    return undefined;
  }
}

function version(facts: Facts): Finding[] {
  const value = facts["redis_version"];
  if (value === undefined) return [];
  const [major = 0, minor = 0] = value.split(".").map(Number);
  const name = facts["valkey_version"] === undefined ? "version" : "version (Valkey, as Redis)";
  if (major < 5)
    return [
      {
        name,
        value,
        verdict: "refuse",
        advice: "use Redis 6.2 or newer: scripts cannot read the clock before they write",
      },
    ];
  if (major < 6 || (major === 6 && minor < 2))
    return [{ name, value, verdict: "warn", advice: "use Redis 6.2 or newer" }];
  return [{ name, value, verdict: "ok" }];
}

function role(facts: Facts, expected: Expected): Finding[] {
  const findings: Finding[] = [];
  if (facts["role"] === "slave")
    findings.push({
      name: "role",
      value: "replica",
      verdict: "refuse",
      advice: "connect to the primary, or through Sentinels that know it",
    });
  if (facts["cluster_enabled"] === "1" && !expected.cluster)
    findings.push({
      name: "cluster",
      value: "this server is part of a Cluster",
      verdict: "refuse",
      advice: "pass a client for a Cluster",
    });
  if (expected.cluster) findings.push({ name: "cluster", value: "yes", verdict: "ok" });
  return findings;
}

function eviction(facts: Facts, expected: Expected): Finding[] {
  const value = facts["maxmemory-policy"] ?? facts["maxmemory_policy"];
  if (value === undefined) return [];
  if (value === "noeviction") return [{ name: "maxmemory-policy", value, verdict: "ok" }];
  return [
    {
      name: "maxmemory-policy",
      value,
      verdict: expected.efficiencyOnly ? "warn" : "refuse",
      advice:
        "locks are keys that expire, so they may be evicted while they are held: set noeviction, use a server of its own for locks, or declare `efficiencyOnly: true`",
    },
  ];
}

function persistence(facts: Facts): Finding[] {
  const { appendonly, appendfsync, save, aof_enabled: aof } = facts;
  const name = "persistence";
  if (appendonly === "yes" || aof === "1") {
    const value = `append-only file, fsync ${appendfsync ?? "unknown"}`;
    if (appendfsync === "always") return [{ name, value, verdict: "ok" }];
    return [
      {
        name,
        value,
        verdict: "warn",
        advice:
          "a power loss can forget the last second of grants (a killed process does not): delay a restart by the longest ttl, or set appendfsync always",
      },
    ];
  }
  if (appendonly === undefined && aof === undefined) return [];
  return [
    {
      name,
      value: save === undefined || save === "" ? "none" : "snapshots only",
      verdict: "warn",
      advice:
        "a restart forgets grants: delay it by the longest ttl, or switch the append-only file on",
    },
  ];
}

function replicas(facts: Facts, expected: Expected): Finding[] {
  const count = facts["connected_slaves"];
  if (count === undefined) return [];
  const connected = Number(count);
  const name = "replicas";
  if (connected < expected.replicas)
    return [
      {
        name,
        value: `${connected} connected`,
        verdict: "refuse",
        advice: `each grant must reach ${expected.replicas}, so nothing could be granted`,
      },
    ];
  if (connected === 0) return [{ name, value: "none", verdict: "ok" }];
  const offset = Number(facts["master_repl_offset"] ?? 0);
  const lags = Object.entries(facts).flatMap(([key, line]) => {
    const at = /^slave\d+$/.test(key) ? /(?:^|,)offset=(\d+)/.exec(line)?.[1] : undefined;
    return at === undefined ? [] : [offset - Number(at)];
  });
  const value = `${connected} connected, at most ${Math.max(0, ...lags)} bytes behind`;
  if (expected.replicas > 0) return [{ name, value, verdict: "ok" }];
  return [
    {
      name,
      value,
      verdict: "warn",
      advice:
        "replication is asynchronous: a failover can lose grants, and two may hold one name; guard the resource, and see `replicas`",
    },
  ];
}

async function serverClock(connection: Sender, clock: Clock, dueAt: number): Promise<Finding> {
  const before = clock.wall();
  const [seconds, micros] = (await connection.send(["TIME"], dueAt)) as readonly [string, string];
  const skew = Number(seconds) * 1000 + Number(micros) / 1000 - (before + clock.wall()) / 2;
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
