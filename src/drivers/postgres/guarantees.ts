import type { Finding, GuaranteeCell, GuaranteeRow } from "../../core/driver.ts";

/** The row of the guarantee table that is true for this database, by what `probe` found. */
export function tableGuarantees(findings: readonly Finding[]): GuaranteeRow {
  return { deployment: deployment("lease table", findings), cells: [...cells(findings)] };
}

/** The same for advisory locks. */
export function advisoryGuarantees(findings: readonly Finding[]): GuaranteeRow {
  const own: readonly GuaranteeCell[] = [
    {
      fault: "its session is ended",
      exclusion: "breaks",
      tokens: "rise",
      note: "until the socket or the heartbeat tells the holder",
    },
    { fault: "the server's clock is stepped", exclusion: "cannot", tokens: "rise" },
    {
      fault: "a failover, or a restart of the server",
      exclusion: "breaks",
      tokens: lagging(findings) ? "may fall" : "rise",
      note: "locks are in memory only",
    },
  ];
  return { deployment: deployment("advisory locks", findings), cells: own };
}

function value(findings: readonly Finding[], name: string): string | undefined {
  return findings.find((finding) => finding.name === name)?.value;
}

/** Whether a standby may be promoted that lacks what was granted. */
function lagging(findings: readonly Finding[]): boolean {
  return value(findings, "standbys")?.includes("asynchronous") === true;
}

function deployment(what: string, findings: readonly Finding[]): string {
  const standbys = value(findings, "standbys") ?? "unknown";
  const fsync = value(findings, "fsync") ?? "unknown";
  return `PostgreSQL ${value(findings, "version") ?? ""}, ${what}, fsync ${fsync}, standbys ${standbys}`;
}

function* cells(findings: readonly Finding[]): Generator<GuaranteeCell> {
  const synced = value(findings, "fsync") === "on";
  yield { fault: "a session is ended", exclusion: "holds", tokens: "rise" };
  yield {
    fault: "the server is killed",
    exclusion: "holds",
    tokens: "rise",
    note: "synchronous_commit is raised for each grant and renewal",
  };
  yield synced
    ? { fault: "the power fails", exclusion: "holds", tokens: "rise" }
    : { fault: "the power fails", exclusion: "breaks", tokens: "may fall", note: "fsync is off" };
  yield {
    fault: "the server's clock is stepped forward",
    exclusion: "breaks",
    tokens: "rise",
    note: "leases end early: let it slew",
  };
  yield lagging(findings)
    ? {
        fault: "a standby is promoted",
        exclusion: "breaks",
        tokens: "may fall",
        note: "it may lack the last grants: name it in synchronous_standby_names",
      }
    : {
        fault: "a synchronous standby is promoted",
        exclusion: "holds",
        tokens: "rise",
        note: "apart from the difference of the two clocks",
      };
}
