import type { Finding } from "../../core/driver.ts";
import { asRedisError } from "../redis/errors.ts";
import { probeServer } from "../redis/probe.ts";
import { type Cause, tooFew } from "./errors.ts";
import { type Checked, survives } from "./options.ts";
import type { Panel } from "./panel.ts";

/**
 * What the servers are, each by itself, and whether they are as many as they seem. Findings that all servers share are
 * told once.
 * @throws DriverError when fewer than a quorum answer
 */
export async function probeServers(
  panel: Panel,
  { quorum, efficiencyOnly }: Checked,
  dueAt: number,
): Promise<readonly Finding[]> {
  const causes: Cause[] = [];
  const runIds = new Map<string, string[]>();
  const found = new Map<string, { readonly finding: Finding; readonly labels: string[] }>();
  await Promise.all(
    panel.seats.map(async ({ server }) => {
      const { label } = server;
      try {
        const expected = { cluster: false, efficiencyOnly, replicas: 0 };
        for (const finding of await probeServer(server, panel.clock, expected, dueAt)) {
          // Clocks differ by a few milliseconds from one reading to the next.
          const key = JSON.stringify(finding);
          const same = found.get(key);
          if (same === undefined) found.set(key, { finding, labels: [label] });
          else same.labels.push(label);
        }
        const id = runIdIn(await server.send(["INFO", "server"], dueAt).catch(() => ""));
        if (id !== undefined) runIds.set(id, [...(runIds.get(id) ?? []), label]);
      } catch (error) {
        causes.push({ label, error: asRedisError(error) });
      }
    }),
  );
  const got = panel.size - causes.length;
  if (got < quorum)
    throw tooFew({ got, needed: quorum, servers: panel.size }, causes, "not-applied");
  const findings: Finding[] = [arithmetic(panel.size, quorum)];
  for (const { finding, labels } of found.values())
    findings.push(
      labels.length === panel.size
        ? finding
        : { ...finding, name: `${finding.name} (${labels.sort().join(", ")})` },
    );
  for (const labels of runIds.values())
    if (labels.length > 1)
      findings.push({
        name: `servers (${labels.sort().join(", ")})`,
        value: "are one and the same",
        verdict: "refuse",
        advice: "pass a client for each independent server: one that counts twice is no quorum",
      });
  for (const { label, error } of causes)
    findings.push({
      name: `server (${label})`,
      value: `not there: ${error.message}`,
      verdict: "warn",
      advice: "it counts as down until it answers",
    });
  return findings;
}

function arithmetic(servers: number, quorum: number): Finding {
  const f = survives(servers, quorum);
  return {
    name: "quorum",
    value: `${quorum} of ${servers}: ${servers - quorum} may be down, ${f} may have forgotten since a name's last grant`,
    verdict: "ok",
  };
}

function runIdIn(reply: unknown): string | undefined {
  return typeof reply === "string" ? /^run_id:(\w+)/m.exec(reply)?.[1] : undefined;
}
