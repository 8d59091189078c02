import type { Finding, GuaranteeCell, GuaranteeRow } from "../../core/driver.ts";
import { survives } from "./options.ts";

/** The row of N independent servers with this quorum, as the findings say that they are. */
export function redlockGuarantees(
  findings: readonly Finding[],
  { servers, quorum, fenced }: { servers: number; quorum: number; fenced: boolean },
): GuaranteeRow {
  const f = survives(servers, quorum);
  const down = findings.filter(({ name }) => name.startsWith("server (")).length;
  const forgetful = findings.some(
    ({ name, value }) => name.startsWith("persistence") && !value.startsWith("append-only file"),
  );
  const tokens = fenced ? "rise" : "none";
  const cell = (fault: string, holds: boolean, note?: string): GuaranteeCell => ({
    fault,
    exclusion: holds ? "holds" : "breaks",
    tokens: !fenced ? "none" : holds ? "rise" : "may fall",
    ...(note === undefined ? {} : { note }),
  });
  const upTo = (what: string): readonly GuaranteeCell[] => [
    ...(f > 0 ? [cell(`up to ${f} ${what}`, true, "since the name's last grant")] : []),
    cell(`${f + 1} or more ${what}`, false, `2 × ${quorum} − ${servers} = ${f + 1}`),
  ];
  return {
    deployment: [
      `Redlock, ${quorum} of ${servers}`,
      down === 0 ? "all servers answer" : `${down} do not answer`,
      forgetful ? "servers that forget when they restart" : "servers with a log",
    ].join(", "),
    cells: [
      cell("holder paused, or its links silent", true),
      cell("late, lost or doubled packets", true, "no clock is needed for the tokens"),
      {
        fault: `up to ${servers - quorum} servers down`,
        exclusion: "holds",
        tokens,
        note: `with more, nothing is granted`,
      },
      ...upTo("servers restarted without their memory"),
      {
        ...cell("servers' clocks step forward", f > 0, f > 0 ? `up to ${f} of them` : undefined),
        tokens,
      },
      forgetful
        ? cell(
            "rolling restart of all servers",
            false,
            "wait out the longest ttl before each, or switch the append-only file on",
          )
        : cell("rolling restart of all servers", true, "one at a time"),
      { ...cell("failover of a server to a replica of it", f > 0, "counts as one that forgot") },
    ],
  };
}
