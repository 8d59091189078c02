import { isatty } from "node:tty";
import type { Driver, Finding, GuaranteeRow } from "../core/driver.ts";
import { asBackendError } from "../core/link.ts";
import { processIdentity } from "../runtime/process-identity.ts";
import { systemClock } from "../runtime/system-clock.ts";
import { systemRandom } from "../runtime/system-random.ts";
import type { CommandModule } from "./command-module.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { type OutputOptions, withOutput } from "./output-option.ts";
import { writeOut } from "./stdio.ts";
import { chooseNamespace, chooseStore, connectStore, type StoreOptions } from "./store.ts";
import { renderTable } from "./table.ts";
import { withStore } from "./with-store.ts";

interface DoctorOptions extends StoreOptions, OutputOptions {}

/** What was found out about a store. */
interface Diagnosis {
  readonly driver: Driver;
  readonly findings: readonly Finding[];
  /** `null`: this driver says nothing about deployments. */
  readonly row: GuaranteeRow | null;
}

/** How long the store has for all of its answers, in milliseconds. */
const PROBE_MS = 10_000;

/** `ringfence doctor [URL]` */
export const doctor: CommandModule = {
  name: "doctor",
  summary: "what a store is, and what it can keep",
  define(command, act) {
    command.argument("[url]", "the store's URL, as for --store");
    withOutput(withStore(command), ["table", "json"]);
    withExamples(command, [
      ["ringfence doctor", "the store that the other commands use"],
      ["ringfence doctor redis://locks:6379", "a server, before locks are built on it"],
      ["ringfence doctor redlock:redis://a,redis://b,redis://c", "a quorum of them"],
    ]);
    withExitCodes(command, [
      ["0", "the driver can keep what it declares; there may be warnings"],
      ["64", "wrong usage"],
      ["69", "the store cannot be reached"],
      ["78", "the driver refuses this store, or wrong configuration"],
    ]);
    command.action((url: string | undefined, options: DoctorOptions) => {
      act(async ({ env, messages }) => {
        if (url !== undefined && (options.store ?? options.storeFile) !== undefined)
          throw new ExitError(EXIT.usage, "give the URL once: as the argument, or by an option");
        const chosen = url === undefined ? options : { ...options, store: url };
        const driver = await connectStore(chooseStore(chosen, env), messages);
        const diagnosis = await diagnose(driver, chooseNamespace(options, env));
        await writeOut(options.output === "json" ? asJson(diagnosis) : asTables(diagnosis));
        const refused = diagnosis.findings.some(({ verdict }) => verdict === "refuse");
        return refused ? EXIT.config : EXIT.done;
      });
    });
  },
};

/** Opens the store past the refusals that a manager would make, so that they can be shown. */
async function diagnose(driver: Driver, namespace: string): Promise<Diagnosis> {
  try {
    const backend = await driver.open({
      clock: systemClock,
      random: systemRandom,
      host: processIdentity(),
      namespace,
      notify: () => undefined,
    });
    try {
      const signal = new AbortController().signal;
      const findings = await backend.probe({ timeoutMs: PROBE_MS, signal });
      return { driver, findings, row: driver.guarantees?.(findings) ?? null };
    } finally {
      await backend.close();
    }
  } catch (error) {
    throw asBackendError(error, "doctor");
  }
}

function asTables({ driver, findings, row }: Diagnosis): string {
  const { name, fencing, waiting, liveness, clock, modes } = driver;
  const facts = [
    ["driver", name],
    ["fencing", fencing],
    ["waiting", waiting],
    ["liveness", liveness],
    ["clock", clock],
    ["modes", modes.join(" ")],
  ];
  const found = findings.map(({ verdict, name: what, value, advice = "" }) => [
    verdict,
    what,
    value,
    advice,
  ]);
  const cells = row?.cells.map(({ fault, exclusion, tokens, note = "" }) => [
    fault,
    exclusion,
    tokens,
    note,
  ]);
  if (!isatty(1)) {
    // One kind of line in three shapes, for `grep` and `cut`.
    const tagged = (tag: string, rows: readonly (readonly string[])[]): string =>
      renderTable(
        [],
        rows.map((each) => [tag, ...each]),
        false,
      );
    return [tagged("store", facts), tagged("finding", found), tagged("fault", cells ?? [])].join(
      "",
    );
  }
  const parts = [
    renderTable(["STORE", ""], facts, true),
    renderTable(["VERDICT", "WHAT", "VALUE", "ADVICE"], found, true),
    row === null
      ? `This driver has no row for one deployment: see its page, docs/drivers/${name}.md.\n`
      : `${row.deployment}\n${renderTable(["UNDER THIS FAULT", "EXCLUSION", "TOKENS", ""], cells ?? [], true)}`,
  ];
  return parts.join("\n");
}

function asJson({ driver, findings, row }: Diagnosis): string {
  const { name, fencing, waiting, liveness, clock, modes } = driver;
  const store = { driver: name, fencing, waiting, liveness, clock, modes };
  return `${JSON.stringify({ ...store, findings, guarantees: row }, null, 2)}\n`;
}
