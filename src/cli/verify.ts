import { writeFile } from "node:fs/promises";
import { isatty } from "node:tty";
import type { Verdict } from "../lab/checkers/index.ts";
import type { Verification } from "../lab/verify.ts";
import type { CommandModule, Invocation } from "./command-module.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { type OutputOptions, withOutput } from "./output-option.ts";
import { writeOut } from "./stdio.ts";
import { renderTable } from "./table.ts";

interface VerifyOptions extends OutputOptions {
  readonly html?: string;
}

/** `ringfence verify FILE` */
export const verify: CommandModule = {
  name: "verify",
  summary: "judge a recorded history: was every lock kept?",
  define(command, act) {
    command.argument("<file>", "a history: of managers with `history: { file }`, or of the lab");
    withOutput(command, ["table", "json"]).option(
      "--html <file>",
      "write a report with a timeline, one page that loads nothing",
    );
    withExamples(command, [
      ["ringfence verify locks.ndjson", "every property, with a sentence for what is wrong"],
      ["ringfence verify locks.ndjson --html report.html", "and who believed what, when"],
    ]);
    withExitCodes(command, [
      ["0", "held"],
      ["1", "violated"],
      ["2", "safe, but no progress: somebody waited for a lock that nobody kept"],
      ["3", "undecided: events are missing, or there is nothing to judge"],
      ["64", "wrong usage, or not a history"],
    ]);
    command.action((file: string, options: VerifyOptions) => {
      act(async (invocation) => await run(file, options, invocation));
    });
  },
};

async function run(
  file: string,
  { html, output }: VerifyOptions,
  { messages }: Invocation,
): Promise<number> {
  const lab = await import("../lab/verify.ts");
  try {
    const result = await lab.verifyFile(file);
    for (const warning of result.warnings) messages.note(warning);
    await writeOut(output === "json" ? jsonOf(result) : tableOf(result));
    if (html === undefined) return result.exit;
    const { htmlReport } = await import("../lab/report/html.ts");
    const events = await lab.eventsToShow(file, result);
    await writeFile(html, htmlReport({ ...result, title: file, events }));
    return result.exit;
  } catch (error) {
    if (error instanceof lab.HistoryFormatError)
      throw new ExitError(EXIT.usage, `${file}, ${error.message}`);
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new ExitError(EXIT.usage, message);
  }
}

const OUTCOMES = ["held", "violated", "no progress", "undecided"] as const;

/** For people: the table, what is wrong in words, and what it comes to. In a pipe: a row for each property. */
function tableOf({ verdicts, exit, events }: Verification): string {
  const table = renderTable(
    ["PROPERTY", "VERDICT", "JUDGED", "MEANS"],
    verdicts.map((verdict) => [
      verdict.property,
      stateOf(verdict),
      String(verdict.judged),
      isatty(1) ? verdict.title : wordsOf(verdict).join(" "),
    ]),
  );
  if (!isatty(1)) return table;
  const details = verdicts.flatMap((verdict) =>
    wordsOf(verdict).map((words) => `${verdict.property}: ${words}\n`),
  );
  return `${table}\n${details.join("")}${OUTCOMES[exit]}: ${events} events\n`;
}

function wordsOf({ violations, violationCount, reasons, notes }: Verdict): string[] {
  const more = violationCount - violations.length;
  return [
    ...violations.map(({ sentence }) => sentence),
    ...(more > 0 ? [`and ${more} more`] : []),
    ...reasons,
    ...notes,
  ];
}

function stateOf({ verdict, judged }: Verdict): string {
  if (verdict === "unknown") return "undecided";
  if (!verdict) return "violated";
  return judged === 0 ? "-" : "held";
}

/** What a program reads: tokens are decimal strings, times nanoseconds. */
function jsonOf({ exit, events, spanNs, warnings, verdicts }: Verification): string {
  const plain = (_key: string, value: unknown): unknown =>
    typeof value === "bigint" ? value.toString() : value;
  const result = { outcome: OUTCOMES[exit], events, spanNs, warnings, verdicts };
  return `${JSON.stringify(result, plain)}\n`;
}
