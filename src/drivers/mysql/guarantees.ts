import type { Finding, GuaranteeCell, GuaranteeRow } from "../../core/driver.ts";

/** The row of the guarantee table that is true for this database, by what `probe` found. */
export function guarantees(findings: readonly Finding[]): GuaranteeRow {
  const value = (name: string): string =>
    findings.find((finding) => finding.name === name)?.value ?? "unknown";
  const refused = findings.some(
    ({ name, verdict }) => name.startsWith("durability") && verdict === "refuse",
  );
  const replicas = findings.some(({ name, verdict }) => name === "replicas" && verdict === "warn");
  return {
    deployment: `${value("version")}, lease table, innodb_flush_log_at_trx_commit ${value("durability of the log")}, replicas ${value("replicas")}`,
    cells: [...cells(refused, replicas)],
  };
}

function* cells(forgets: boolean, replicas: boolean): Generator<GuaranteeCell> {
  yield { fault: "a session is ended", exclusion: "holds", tokens: "rise" };
  yield forgets
    ? {
        fault: "the server is killed, or the power fails",
        exclusion: "breaks",
        tokens: "may fall",
        note: "commits are told before they are on disk",
      }
    : { fault: "the server is killed, or the power fails", exclusion: "holds", tokens: "rise" };
  yield {
    fault: "the server's clock is stepped forward",
    exclusion: "breaks",
    tokens: "rise",
    note: "leases end early: let it slew",
  };
  yield {
    fault: "a replica is promoted",
    exclusion: "breaks",
    tokens: "may fall",
    note: replicas
      ? "it may lack the last grants: wait for the longest ttl, and guard the resource"
      : "none was seen; one may lack the last grants",
  };
}
