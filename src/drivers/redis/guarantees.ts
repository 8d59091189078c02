import type { Finding, GuaranteeCell, GuaranteeRow } from "../../core/driver.ts";

/** What is known of the server, from the findings of its probe. */
interface Facts {
  readonly persistence: string;
  readonly replicas: string;
  readonly policy: string;
  readonly cluster: boolean;
  readonly fenced: boolean;
}

/** The row of one Redis, of a primary with replicas, or of a Cluster, as the findings say that it is. */
export function redisGuarantees(findings: readonly Finding[], fenced: boolean): GuaranteeRow {
  const of = (name: string): string => findings.find((each) => each.name === name)?.value ?? "";
  const facts: Facts = {
    persistence: of("persistence"),
    replicas: of("replicas"),
    policy: of("maxmemory-policy"),
    cluster: of("cluster") === "yes",
    fenced,
  };
  return { deployment: describe(facts), cells: cellsOf(facts) };
}

function describe({ persistence, replicas, policy, cluster }: Facts): string {
  return [
    cluster ? "Redis Cluster" : "one Redis",
    `persistence: ${persistence === "" ? "unknown" : persistence}`,
    replicas === "" || replicas === "none" ? "no replica" : `replicas: ${replicas}`,
    policy === "" ? "eviction unknown" : policy,
  ].join(", ");
}

function cellsOf(facts: Facts): readonly GuaranteeCell[] {
  const { persistence, replicas, policy, fenced } = facts;
  const tokens = fenced ? "rise" : "none";
  const unless = fenced ? "tokens rise unless the new clock is behind the lost grant" : undefined;
  const holds = (fault: string, note?: string): GuaranteeCell => ({
    fault,
    exclusion: "holds",
    tokens,
    ...(note === undefined ? {} : { note }),
  });
  const breaks = (fault: string, note = unless): GuaranteeCell => ({
    fault,
    exclusion: "breaks",
    tokens: fenced ? "may fall" : "none",
    ...(note === undefined ? {} : { note }),
  });
  const logged = persistence.startsWith("append-only file");
  const synced = persistence.includes("fsync always");
  const copies = replicas !== "" && replicas !== "none";
  return [
    holds("holder paused, or its link silent"),
    holds("late, lost or doubled packets"),
    logged
      ? holds("server killed and started again", "the page cache outlives the process")
      : breaks(
          "server killed and started again",
          "it forgets its grants: start it only when the longest ttl has passed",
        ),
    synced
      ? holds("power loss", "where the disk honours fsync")
      : breaks("power loss", logged ? "grants of the last second are lost" : "all grants are lost"),
    copies
      ? breaks(
          "failover",
          "a promoted replica may lack the newest grants; `replicas` narrows the window",
        )
      : { fault: "failover", exclusion: "cannot", tokens, note: "there is no replica" },
    policy === "noeviction"
      ? holds("memory full", "acquires are refused with OOM")
      : breaks("memory full", "locks are keys that expire, so they may be evicted while held"),
    { ...breaks("server's clock steps forward", "leases end early"), tokens },
    holds("server's clock steps back", "dead leases stay longer"),
  ];
}
