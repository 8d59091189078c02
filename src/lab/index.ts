/**
 * The failure lab: failures of the literature as scenarios in three arms, the production core in a deterministic world,
 * and a search for schedules that break it. Everything in here runs in virtual time and repeats itself from its seed.
 */
import { InvalidArgumentError } from "../core/errors.ts";
import { type RealStore, runReal, whyNotReal } from "./chaos/run-real.ts";
import type { Verdict } from "./checkers/index.ts";
import { decodeCase, encodeCase } from "./explore/replay-string.ts";
import { type Case, runAgain, type Strategy, search } from "./explore/search.ts";
import { shrink } from "./explore/shrink.ts";
import { SUBJECTS, type Subject, subjectOf } from "./explore/subjects.ts";
import type { History } from "./history.ts";
import { runScenario, type ScenarioResult } from "./run.ts";
import { SCENARIOS, type Scenario } from "./scenarios/index.ts";

/** What a run came to, in the order of what counts more. */
export const EXIT_CODES: {
  readonly held: 0;
  readonly violated: 1;
  readonly "no progress": 2;
  readonly undecided: 3;
  readonly inconclusive: 3;
} = { held: 0, violated: 1, "no progress": 2, undecided: 3, inconclusive: 3 };

/** Every scenario, by number. */
export function list(): readonly Scenario[] {
  return SCENARIOS;
}

/** How `run` goes about it. */
export interface RunOptions {
  /** The first seed; 1 by default. */
  readonly seed?: number;
  /** With real servers, processes and time; without names those that can run so here. */
  readonly real?: boolean;
  /** With `real`: which store Ringfence's arm uses. Redis by default. */
  readonly store?: RealStore;
  readonly onResult?: (result: ScenarioResult) => void;
}

/**
 * Runs scenarios by number or name, all of them without any. Each arm runs twice with each seed, and must repeat itself.
 * @throws InvalidArgumentError for a name that there is not
 */
export async function run(
  names: readonly string[] = [],
  { seed = 1, real = false, store = "redis", onResult }: RunOptions = {},
): Promise<readonly ScenarioResult[]> {
  const chosen = names.length === 0 ? SCENARIOS : names.map(scenarioOf);
  if (real) {
    const able =
      names.length > 0 ? chosen : chosen.filter((each) => whyNotReal(each, store) === null);
    return await runReal(able, { store, ...(onResult === undefined ? {} : { onResult }) });
  }
  const results: ScenarioResult[] = [];
  for (const scenario of chosen) {
    const result = await runScenario(scenario, seed);
    onResult?.(result);
    results.push(result);
  }
  return results;
}

function scenarioOf(name: string): Scenario {
  const wanted = name.toLowerCase();
  const found = SCENARIOS.find(
    (scenario) => scenario.id.toLowerCase() === wanted || scenario.name === wanted,
  );
  if (found === undefined)
    throw new InvalidArgumentError(
      `Expected the number or name of a scenario, got "${name}". \`ringfence lab list\` shows them.`,
    );
  return found;
}

/** How `explore` goes about it. */
export interface ExploreOptions {
  /** What runs: `core`, `sqlite`, `redis`, `redis-forgets`, `redlock`, `postgres`, or what is there to be broken: `S04`, `S11`, `S12`, `S21`. */
  readonly subject?: string;
  readonly strategy?: Strategy;
  readonly seed?: number;
  /** Runs at most. */
  readonly runs?: number;
  /** Real minutes at most. One of `runs` and `minutes` is needed. */
  readonly minutes?: number;
  readonly onRun?: (runs: number) => void;
}

/** A run that broke something, as small as it could be made. */
interface Counterexample {
  readonly subject: string;
  /** The line that repeats it: `ringfence lab replay lab1:…`. */
  readonly replay: string;
  readonly broken: readonly Verdict[];
  readonly history: History;
  /** A test that fails until the cause is mended. */
  readonly test: string;
}

/** What an exploration came to. */
export interface Exploration {
  readonly subject: string;
  readonly runs: number;
  readonly conclusion: "held" | "violated" | "no progress";
  readonly counterexample: Counterexample | null;
}

/** Looks for a schedule that breaks something, and makes what it finds as small as it can. */
export async function explore(options: ExploreOptions): Promise<Exploration> {
  const { subject: name = "core", minutes, ...rest } = options;
  if (minutes === undefined && options.runs === undefined)
    throw new InvalidArgumentError("Expected `minutes` or `runs`: a search has to end.");
  const subject = known(name);
  const budgetMs = minutes === undefined ? Infinity : minutes * 60_000;
  const { found, runs } = await search(subject, { ...rest, budgetMs });
  if (found === null) return { subject: name, runs, conclusion: "held", counterexample: null };
  const small = await shrink(subject, found);
  return {
    subject: name,
    runs,
    conclusion: conclusionOf(small.trial.broken),
    counterexample: counterexampleOf(small.case, small.trial),
  };
}

/**
 * Repeats a run from its line, twice.
 * @throws InvalidArgumentError for a line that is none; Error when the run does not repeat itself
 */
export async function replay(text: string): Promise<Exploration> {
  const repeated = decodeCase(text);
  const subject = known(repeated.subject);
  const trial = await runAgain(subject, repeated);
  const again = await runAgain(subject, repeated);
  if (trial.hash !== again.hash) throw new Error("Two runs of one line differ: the lab is broken.");
  const conclusion = trial.broken.length === 0 ? "held" : conclusionOf(trial.broken);
  const counterexample = trial.broken.length === 0 ? null : counterexampleOf(repeated, trial);
  return { subject: repeated.subject, runs: 1, conclusion, counterexample };
}

function known(name: string): Subject {
  if (SUBJECTS.some((subject) => subject.name === name)) return subjectOf(name);
  const names = SUBJECTS.map((subject) => subject.name).join(", ");
  throw new InvalidArgumentError(`Expected one of ${names} to explore, got "${name}".`);
}

function conclusionOf(broken: readonly Verdict[]): "violated" | "no progress" {
  return broken.every(({ property }) => property === "P8" || property === "P9")
    ? "no progress"
    : "violated";
}

function counterexampleOf(
  shown: Case,
  { broken, history }: { readonly broken: readonly Verdict[]; readonly history: History },
): Counterexample {
  const line = encodeCase(shown);
  const [first] = broken;
  const test = [
    `it("${first?.property ?? "P1"}: ${first?.title ?? ""}", async () => {`,
    `  const { counterexample } = await replay(`,
    `    "${line}",`,
    `  );`,
    `  expect(counterexample?.broken ?? []).toEqual([]);`,
    `});`,
  ].join("\n");
  return { subject: shown.subject, replay: line, broken, history, test };
}

export type { Strategy } from "./explore/search.ts";
export type { ScenarioResult } from "./run.ts";
