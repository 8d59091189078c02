import type { Finding, GuaranteeRow } from "../../core/driver.ts";

/** The row of one SQLite file, as the findings say that it is. */
export function sqliteGuarantees(findings: readonly Finding[], durable: boolean): GuaranteeRow {
  const of = (name: string): Finding | undefined => findings.find((each) => each.name === name);
  const fileSystem = of("file-system");
  const local = fileSystem?.verdict === "ok";
  return {
    deployment: `one SQLite file on ${fileSystem?.value ?? "an unknown file system"}, synchronous ${of("synchronous")?.value ?? "unknown"}`,
    cells: [
      { fault: "holder paused, or killed", exclusion: "holds", tokens: "rise" },
      {
        fault: "wall clock stepped",
        exclusion: "holds",
        tokens: "rise",
        ...(local ? {} : { note: "except for leases of another boot, where hosts may share it" }),
      },
      {
        fault: "power loss",
        exclusion: "holds",
        tokens: durable ? "rise" : "may fall",
        note: durable
          ? "where the disk honours a sync"
          : "only if the last commits are lost and the wall clock went back",
      },
      {
        fault: "file deleted, replaced or restored",
        exclusion: "breaks",
        tokens: "may fall",
        note: "until the old holder's next step; tokens fall only if the wall clock went back",
      },
      {
        fault: "processes of another host",
        exclusion: local ? "cannot" : "breaks",
        tokens: "rise",
        note: "locks in a file are for one host",
      },
    ],
  };
}
