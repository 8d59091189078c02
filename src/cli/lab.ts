import { writeFile } from "node:fs/promises";
import { extname } from "node:path";
import { isatty } from "node:tty";
import type { Command } from "commander";
import type { History } from "../lab/history.ts";
import type { Exploration, ScenarioResult, Strategy } from "../lab/index.ts";
import type { ReportInput } from "../lab/report/html.ts";
import type { Action, CommandModule, Invocation } from "./command-module.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { type OutputOptions, withOutput } from "./output-option.ts";
import { writeOut } from "./stdio.ts";
import { renderTable } from "./table.ts";
import { wholeNumber } from "./whole-number.ts";

interface LabOptions extends OutputOptions {
  readonly html?: string;
  readonly history?: string;
}

interface RunOptions extends LabOptions {
  readonly real?: boolean;
  readonly store: string;
  readonly seed: string;
  readonly arm: string;
}

interface ExploreOptions extends LabOptions {
  readonly minutes: string;
  readonly runs?: string;
  readonly subject: string;
  readonly strategy: Strategy;
  readonly seed: string;
}

const EXIT_LINES: readonly (readonly [string, string])[] = [
  ["0", "held"],
  ["1", "violated"],
  ["2", "safe, but no progress"],
  ["3", "undecided, or the run contained no danger"],
  ["64", "wrong usage"],
];
const STRATEGIES: readonly Strategy[] = ["random", "pct", "bounded"];
const REAL =
  "with real servers and processes, in real time; needs redis-server, for S28 to S32, S42, S51 and S52 PostgreSQL and PgBouncer";
const HISTORY = "write its history: .ndjson, .edn (Jepsen) or .mmd (Mermaid)";
/** How often an exploration says how far it is. */
const PROGRESS_RUNS = 50;

/** `ringfence lab list | run | explore | replay` */
export const lab: CommandModule = {
  name: "lab",
  summary: "failures of distributed locks: watch them happen, or be survived",
  define(command, act) {
    withExamples(command, [
      ["ringfence lab list", "every failure that can be run"],
      ["ringfence lab run claim-gap", "one of them, in three arms"],
      ["ringfence lab run claim-gap --real", "the same with a real Redis and real processes"],
      ["ringfence lab explore --minutes 5", "look for a schedule that breaks Ringfence"],
    ]);
    withExitCodes(command, EXIT_LINES);
    defineList(command, act);
    defineRun(command, act);
    defineExplore(command, act);
    defineReplay(command, act);
  },
};

function defineList(lab: Command, act: (action: Action) => void): void {
  const command = withOutput(lab.command("list").summary("list the scenarios"), ["table", "json"]);
  command.action((options: LabOptions) => {
    act(async () => {
      const { list } = await import("../lab/index.ts");
      const rows = list().map(({ id, name, property, title, real }) => {
        const runs = real === undefined ? "simulated" : "simulated, real";
        return { id, name, property, runs, title };
      });
      await writeOut(
        options.output === "json"
          ? `${JSON.stringify(rows)}\n`
          : renderTable(
              ["ID", "NAME", "BREAKS", "RUNS", "WHAT HAPPENS"],
              rows.map(({ id, name, property, runs, title }) => [id, name, property, runs, title]),
            ),
      );
      return 0;
    });
  });
}

function defineRun(lab: Command, act: (action: Action) => void): void {
  const command = lab
    .command("run")
    .summary("run scenarios; all of them without a name")
    .argument("[names...]", "numbers or names");
  withOutput(command, ["table", "json"])
    .optionsGroup("Options:")
    .option("--real", REAL)
    .option(
      "--store <name>",
      "with --real: Ringfence's store, where a scenario is not about one: redis, sqlite or postgres",
      "redis",
    )
    .option("--seed <n>", "without --real: the first seed", "1")
    .option("--arm <name>", "whose files those are: naive, fence or ringfence", "naive")
    .option("--html <file>", "write the last one's timeline")
    .option("--history <file>", HISTORY);
  command.action((names: string[], options: RunOptions) => {
    act(async (invocation) => await runScenarios(names, options, invocation));
  });
}

async function runScenarios(
  names: readonly string[],
  { html, history: file, output, real = false, store, seed, arm }: RunOptions,
  { messages }: Invocation,
): Promise<number> {
  const { EXIT_CODES, run } = await import("../lab/index.ts");
  if (arm !== "naive" && arm !== "fence" && arm !== "ringfence")
    throw new ExitError(
      EXIT.usage,
      `Expected --arm to be naive, fence or ringfence, got "${arm}".`,
    );
  if (store !== "redis" && store !== "sqlite" && store !== "postgres")
    throw new ExitError(
      EXIT.usage,
      `Expected --store to be redis, sqlite or postgres, got "${store}".`,
    );
  const results = await run(names, {
    seed: wholeNumber("--seed", seed, { min: 0, max: 999_999_999 }),
    real,
    store,
    onResult: ({ scenario, conclusion }) => {
      if (messages.rewrites) messages.status(`${scenario.id} ${scenario.name}: ${conclusion}`);
    },
  });
  messages.clearStatus();
  await writeOut(
    output === "json" ? `${JSON.stringify(results.map(plainResult))}\n` : tableOf(results),
  );
  for (const line of output === "json" ? [] : notesOf(results)) messages.note(line);
  const last = results.at(-1);
  if (last !== undefined) {
    const { history, verdict } = last.arms[arm];
    const title = `${last.scenario.id} ${last.scenario.name}, ${arm} arm: ${last.scenario.title}`;
    await writeFiles({ html, file }, history, { title, verdicts: [verdict] });
  }
  const codes = results.map(({ conclusion }) => EXIT_CODES[conclusion]);
  return (
    codes.find((code) => code === 1) ?? codes.find((code) => code === 2) ?? Math.max(0, ...codes)
  );
}

interface Files {
  readonly html: string | undefined;
  readonly file: string | undefined;
}

/** The timeline, and the history in the form that its file's name says. */
async function writeFiles(
  { html, file }: Files,
  history: History,
  facts: Pick<ReportInput, "title" | "verdicts">,
): Promise<void> {
  if (html !== undefined) {
    const { htmlReport } = await import("../lab/report/html.ts");
    await writeFile(html, htmlReport({ ...facts, header: history.header, events: [...history] }));
  }
  if (file !== undefined) await writeFile(file, await textOf(history, extname(file)));
}

async function textOf(history: History, extension: string): Promise<string> {
  switch (extension) {
    case ".mmd":
      return (await import("../lab/report/mermaid.ts")).toMermaid(history);
    case ".edn":
      return [...(await import("../lab/report/edn.ts")).toEdn(history)].join("");
    case ".ndjson":
      return [...(await import("../lab/ndjson.ts")).toNdjson(history)].join("");
    default:
      throw new ExitError(
        EXIT.usage,
        `Expected the file of --history to end in .ndjson, .edn or .mmd, got "${extension}".`,
      );
  }
}

function verdictWord(holds: true | false | "unknown"): string {
  return holds === true ? "holds" : holds === false ? "BROKEN" : "unknown";
}

function tableOf(results: readonly ScenarioResult[]): string {
  const table = renderTable(
    ["ID", "NAME", "PROPERTY", "NAIVE", "FENCE", "RINGFENCE", "OUTCOME"],
    results.map(({ scenario, arms, conclusion }) => [
      scenario.id,
      scenario.name,
      scenario.property,
      verdictWord(arms.naive.verdict.verdict),
      verdictWord(arms.fence.verdict.verdict),
      verdictWord(arms.ringfence.verdict.verdict),
      conclusion,
    ]),
  );
  if (!isatty(1) || results.length !== 1) return table;
  const sentences = results.flatMap(({ arms }) =>
    [arms.naive, arms.fence, arms.ringfence].flatMap(({ arm, verdict }) =>
      [...verdict.violations.slice(0, 1).map(({ sentence }) => sentence), ...verdict.reasons].map(
        (sentence) => `${arm}: ${sentence}\n`,
      ),
    ),
  );
  return `${table}\n${sentences.join("")}`;
}

/** What was played in another way than it could be, and why: once for a scenario. */
function notesOf(results: readonly ScenarioResult[]): string[] {
  return results.flatMap(({ scenario, arms }) => {
    const notes = [arms.naive, arms.fence, arms.ringfence].flatMap((arm) => arm.notes ?? []);
    return [...new Set(notes)].map((note) => `${scenario.id}: ${note}`);
  });
}

function plainResult({ scenario, arms, conclusion }: ScenarioResult): Record<string, unknown> {
  const { id, name, title, property } = scenario;
  const all = [arms.naive, arms.fence, arms.ringfence].map(
    ({ arm, verdict, seed, runs, asExpected, notes = [] }) => ({
      arm,
      holds: verdict.verdict,
      asExpected,
      seed,
      runs,
      sentences: verdict.violations.map(({ sentence }) => sentence),
      reasons: verdict.reasons,
      notes,
    }),
  );
  return { id, name, title, property, conclusion, arms: all };
}

function defineExplore(lab: Command, act: (action: Action) => void): void {
  const command = lab.command("explore").summary("look for a schedule that breaks something");
  withOutput(command, ["table", "json"])
    .optionsGroup("Options:")
    .option("--minutes <n>", "how long", "1")
    .option("--runs <n>", "how many at most")
    .option(
      "--subject <name>",
      "core, sqlite, redis, redis-forgets, redlock or postgres; to be broken: S04, S11, S12, S21",
      "core",
    )
    .option("--strategy <name>", "random, pct or bounded", "random")
    .option("--seed <n>", "the first seed", "1")
    .option("--html <file>", "write the counterexample's timeline")
    .option("--history <file>", HISTORY);
  command.action((options: ExploreOptions) => {
    act(async (invocation) => {
      const { messages } = invocation;
      const { EXIT_CODES, explore } = await import("../lab/index.ts");
      if (!STRATEGIES.includes(options.strategy))
        throw new ExitError(
          EXIT.usage,
          `Expected --strategy to be ${STRATEGIES.join(", ")}, got "${options.strategy}".`,
        );
      const result = await explore({
        subject: options.subject,
        strategy: options.strategy,
        minutes: wholeNumber("--minutes", options.minutes, { min: 1, max: 100_000 }),
        ...(options.runs === undefined
          ? {}
          : { runs: wholeNumber("--runs", options.runs, { min: 1, max: 1e9 }) }),
        seed: wholeNumber("--seed", options.seed, { min: 0, max: 999_999_999 }),
        onRun: (runs) => {
          if (runs % PROGRESS_RUNS === 0 && messages.rewrites) messages.status(`${runs} runs`);
        },
      });
      messages.clearStatus();
      await show(result, options);
      return EXIT_CODES[result.conclusion];
    });
  });
}

function defineReplay(lab: Command, act: (action: Action) => void): void {
  const command = lab
    .command("replay")
    .summary("repeat a run from its line")
    .argument("<line>", "lab1:…");
  withOutput(command, ["table", "json"])
    .optionsGroup("Options:")
    .option("--html <file>", "write its timeline")
    .option("--history <file>", HISTORY);
  command.action((line: string, options: LabOptions) => {
    act(async () => {
      const { EXIT_CODES, replay } = await import("../lab/index.ts");
      const result = await replay(line);
      await show(result, options);
      return EXIT_CODES[result.conclusion];
    });
  });
}

async function show(
  result: Exploration,
  { html, history: file, output }: LabOptions,
): Promise<void> {
  const { counterexample, conclusion, runs, subject } = result;
  if (output === "json") {
    const shown =
      counterexample === null
        ? null
        : {
            replay: counterexample.replay,
            test: counterexample.test,
            broken: counterexample.broken.map(({ property, violations }) => ({
              property,
              sentences: violations.map(({ sentence }) => sentence),
            })),
          };
    await writeOut(`${JSON.stringify({ subject, conclusion, runs, counterexample: shown })}\n`);
  } else await writeOut(`${conclusion}: ${subject}, ${runs} runs\n${wordsOf(result)}`);
  if (counterexample === null) return;
  const { broken: verdicts, history } = counterexample;
  await writeFiles({ html, file }, history, { title: `${subject}: ${conclusion}`, verdicts });
}

function wordsOf({ counterexample }: Exploration): string {
  if (counterexample === null) return "";
  const sentences = counterexample.broken.map(
    ({ property, violations }) => `${property}: ${violations[0]?.sentence ?? ""}\n`,
  );
  return `${sentences.join("")}\nringfence lab replay ${counterexample.replay}\n\n${counterexample.test}\n`;
}
