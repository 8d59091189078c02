import { systemClock } from "../../runtime/system-clock.ts";
import {
  type Choice,
  type Picks,
  pctChoices,
  picksOf,
  randomChoices,
  replayedChoices,
} from "../sim/choices.ts";
import type { Subject, Trial } from "./subjects.ts";

/**
 * How schedules are chosen. `random`: by weight. `pct`: few surprises at random places. `bounded`: all schedules with one
 * deviation from the harmless course, then all with two, and so on: what it finds first is the shortest.
 */
export type Strategy = "random" | "pct" | "bounded";

/** A run that can be repeated. */
export interface Case {
  readonly subject: string;
  readonly seed: number;
  /** `null`: by chance, from the seed. */
  readonly picks: Picks | null;
}

/** A violation that was found, and the search for it. */
export interface Found {
  readonly case: Case;
  readonly trial: Trial;
}

export interface SearchOptions {
  readonly strategy?: Strategy;
  readonly seed?: number;
  /** Runs at most. */
  readonly runs?: number;
  /** Real milliseconds at most. */
  readonly budgetMs?: number;
  readonly onRun?: (runs: number) => void;
  /** Runs everything twice: a run that does not repeat itself is an error of the lab. */
  readonly twice?: boolean;
}

/** What a search came to; `found` is `null` when nothing broke. */
export interface SearchResult {
  readonly found: Found | null;
  readonly runs: number;
}

/**
 * Runs a subject again and again until something breaks, or the budget is used up.
 * @throws Error when `twice` finds a run that does not repeat itself
 */
export async function search(subject: Subject, options: SearchOptions = {}): Promise<SearchResult> {
  const { strategy = "random", seed = 1, runs = Infinity, budgetMs = Infinity, onRun } = options;
  const { twice = false } = options;
  const until = systemClock.mono() + budgetMs;
  const cases = strategy === "bounded" ? new Bounded(seed) : chance(strategy, seed);
  let count = 0;
  let last: Trial | undefined;
  while (count < runs && systemClock.mono() < until) {
    const next = cases.next(last);
    if (next === undefined) break;
    const trial = await runCase(subject, next.seed, next.make);
    last = trial;
    count += 1;
    if (twice && (await runCase(subject, next.seed, next.make)).hash !== trial.hash)
      throw new Error(`${subject.name}: seed ${next.seed} does not repeat itself`);
    onRun?.(count);
    if (trial.broken.length > 0) {
      const picks = picksOf(trial.choices.log);
      return {
        found: { case: { subject: subject.name, seed: next.seed, picks }, trial },
        runs: count,
      };
    }
  }
  return { found: null, runs: count };
}

type MakeChoices = () => ReturnType<typeof randomChoices>;

async function runCase(subject: Subject, seed: number, make: MakeChoices): Promise<Trial> {
  return await subject.run(seed, make());
}

/** Repeats a case. */
export async function runAgain(subject: Subject, { seed, picks }: Case): Promise<Trial> {
  return await subject.run(seed, picks === null ? randomChoices(seed) : replayedChoices(picks));
}

interface Cases {
  next(last: Trial | undefined): { readonly seed: number; readonly make: MakeChoices } | undefined;
}

function chance(strategy: "random" | "pct", firstSeed: number): Cases {
  let seed = firstSeed - 1;
  return {
    next() {
      seed += 1;
      const own = seed;
      return {
        seed: own,
        make: () => (strategy === "pct" ? pctChoices(own, 1 + (own % 5), 300) : randomChoices(own)),
      };
    },
  };
}

/** One deviation from the harmless course. */
interface Deviation {
  readonly site: string;
  readonly index: number;
  readonly picked: number;
  /** Its place among all decisions of the run in which it was found. */
  readonly order: number;
}

/** Breadth first over sets of deviations. */
class Bounded implements Cases {
  readonly #seed: number;
  readonly #queue: (readonly Deviation[])[] = [[]];
  #head = 0;
  #current: readonly Deviation[] | undefined;

  constructor(seed: number) {
    this.#seed = seed;
  }

  next(last: Trial | undefined): ReturnType<Cases["next"]> {
    if (last !== undefined && this.#current !== undefined)
      this.#branch(this.#current, last.choices.log);
    this.#current = this.#queue[this.#head];
    this.#head += 1;
    if (this.#current === undefined) return undefined;
    const picks = picksFrom(this.#current);
    return { seed: this.#seed, make: () => replayedChoices(picks) };
  }

  #branch(deviations: readonly Deviation[], log: readonly Choice[]): void {
    const from = deviations.at(-1)?.order ?? -1;
    const counts = new Map<string, number>();
    log.forEach(({ site, options }, order) => {
      const index = counts.get(site) ?? 0;
      counts.set(site, index + 1);
      if (order <= from) return;
      for (let picked = 1; picked < options; picked += 1)
        this.#queue.push([...deviations, { site, index, picked, order }]);
    });
  }
}

function picksFrom(deviations: readonly Deviation[]): Map<string, number[]> {
  const picks = new Map<string, number[]>();
  for (const { site, index, picked } of deviations) {
    const stream = picks.get(site) ?? [];
    while (stream.length < index) stream.push(0);
    stream[index] = picked;
    picks.set(site, stream);
  }
  return picks;
}
