import { FakeRandom } from "../../testing/fake-random.ts";

/**
 * One kind of decision that the world may make differently: the delay of messages on one link, the faults of one
 * schedule. Each site has a stream of its own, so that taking one fault away does not shift every later decision.
 */
export interface Site {
  /** An index into `weights`; 0 is the harmless one. An index of weight 0 is never picked by chance. */
  pick(weights: readonly number[]): number;
  /** Uniform over `n` options. */
  among(n: number): number;
}

/** One decision that was made. */
export interface Choice {
  readonly site: string;
  /** How many options it had. */
  readonly options: number;
  readonly picked: number;
}

/** Where the world's decisions come from. */
export interface Choices {
  site(name: string): Site;
  /** What was decided so far, in order; empty where nothing is recorded. */
  readonly log: readonly Choice[];
}

/** Decisions by site: what replays a run. What is missing is 0. */
export type Picks = ReadonlyMap<string, readonly number[]>;

/** A number from a seed and a text, evenly spread (FNV-1a, then mixed). */
export function seedOf(seed: number, text: string): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = 0; i < text.length; i += 1)
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b) >>> 0;
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** How one site decides. */
type Decide = (weights: readonly number[]) => number;

class LoggedSite implements Site {
  readonly #name: string;
  readonly #log: Choice[] | null;
  readonly #decide: Decide;

  constructor(name: string, log: Choice[] | null, decide: Decide) {
    this.#name = name;
    this.#log = log;
    this.#decide = decide;
  }

  pick(weights: readonly number[]): number {
    const picked = this.#decide(weights);
    this.#log?.push({ site: this.#name, options: weights.length, picked });
    return picked;
  }

  among(n: number): number {
    return this.pick(evenly(n));
  }
}

const EVENLY: (readonly number[])[] = [];

function evenly(n: number): readonly number[] {
  return (EVENLY[n] ??= new Array<number>(n).fill(1));
}

class LoggedChoices implements Choices {
  readonly log: Choice[] = [];
  readonly #record: boolean;
  readonly #make: (site: string) => Decide;
  readonly #sites = new Map<string, Site>();

  constructor(record: boolean, make: (site: string) => Decide) {
    this.#record = record;
    this.#make = make;
  }

  site(name: string): Site {
    let site = this.#sites.get(name);
    if (site === undefined) {
      site = new LoggedSite(name, this.#record ? this.log : null, this.#make(name));
      this.#sites.set(name, site);
    }
    return site;
  }
}

/** By chance, each option by its weight. The same seed decides the same. */
export function randomChoices(seed: number, record = true): Choices {
  return new LoggedChoices(record, (site) => {
    const random = new FakeRandom(seedOf(seed, site));
    return (weights) => weighted(random, weights);
  });
}

function weighted(random: FakeRandom, weights: readonly number[]): number {
  let total = 0;
  for (const weight of weights) total += weight;
  let left = random.unit() * total;
  for (let i = 0; i < weights.length; i += 1) {
    left -= weights[i] ?? 0;
    if (left < 0) return i;
  }
  return 0;
}

/** As it was recorded; 0 beyond that. */
export function replayedChoices(picks: Picks): Choices {
  return new LoggedChoices(true, (site) => {
    const stream = picks.get(site) ?? [];
    let at = 0;
    return (weights) => {
      const picked = stream[at] ?? 0;
      at += 1;
      // A shrunk run may meet a decision with fewer options than the recorded one had.
      return Math.min(picked, weights.length - 1);
    };
  });
}

/**
 * Probabilistic concurrency testing: every site has a priority that decides its delays, so that one side is always
 * slow and another always fast, and at `depth` points drawn over the run (about `length` decisions) something else
 * happens than the harmless thing. Finds what needs few, but exactly placed, surprises.
 */
export function pctChoices(seed: number, depth: number, length: number): Choices {
  const random = new FakeRandom(seedOf(seed, "pct"));
  const points = new Set<number>();
  while (points.size < depth) points.add(Math.floor(random.unit() * length));
  let count = 0;
  return new LoggedChoices(true, (site) => {
    const own = new FakeRandom(seedOf(seed, site));
    const slow = own.unit();
    return (weights) => {
      const now = count;
      count += 1;
      if (points.has(now)) {
        const open = weights.flatMap((weight, i) => (i > 0 && weight > 0 ? [i] : []));
        return open[Math.floor(own.unit() * open.length)] ?? 0;
      }
      return site.startsWith("link ") && weights.length > 2 && slow > 0.7 ? 1 : 0;
    };
  });
}

/** The recorded decisions by site, without the zeros at each end. */
export function picksOf(log: readonly Choice[]): Map<string, number[]> {
  const picks = new Map<string, number[]>();
  for (const { site, picked } of log) {
    const stream = picks.get(site);
    if (stream === undefined) picks.set(site, [picked]);
    else stream.push(picked);
  }
  for (const [site, stream] of picks) {
    while (stream.length > 0 && stream.at(-1) === 0) stream.pop();
    if (stream.length === 0) picks.delete(site);
  }
  return picks;
}
