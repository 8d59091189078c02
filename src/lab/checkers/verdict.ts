import type { Ev, EvOp, History } from "../history.ts";
import type { LockModel } from "./models.ts";
import { World } from "./world.ts";

/** The properties of a history. */
export type PropertyId =
  | "P1"
  | "P2"
  | "P3"
  | "P4"
  | "P5"
  | "P6"
  | "P7"
  | "P8"
  | "P9"
  | "P10"
  | "P11"
  | "P12"
  | "P13"
  | "P14"
  | "P15"
  | "P16";

/** One violation: a sentence for people, and the fewest events that show it, in their order. */
export interface Violation {
  readonly sentence: string;
  /** At most 6. */
  readonly witness: readonly Ev[];
}

/** What a checker says. */
export interface Verdict {
  readonly property: PropertyId;
  readonly title: string;
  /** `unknown`: the history, or the budget, does not suffice to say. */
  readonly verdict: true | false | "unknown";
  /** How many things were judged. 0: the property holds of nothing, which proves nothing. */
  readonly judged: number;
  /** The first violations, at most 10. */
  readonly violations: readonly Violation[];
  readonly violationCount: number;
  /** Why nothing can be said, when it cannot. */
  readonly reasons: readonly string[];
  /** What else is worth knowing: delays, counts. */
  readonly notes: readonly string[];
}

/** What checkers are told about the run. Times are nanoseconds. */
export interface CheckOptions {
  /** How far two time stamps may be off from each other. Default 0: one clock. */
  readonly epsilonNs?: number;
  /** P7: how late a notice of loss may come. Default 250 ms. */
  readonly noticeNs?: number;
  /** P8, P9: how long a free lock may stay free while somebody waits. Default 5 s. */
  readonly progressNs?: number;
  /** P13: the longest hold. Default: none, nothing is judged. */
  readonly maxHoldNs?: number;
  /** P12. Default: an exclusive lock; with fencing tokens where every grant has one. */
  readonly model?: LockModel;
  /** P12: steps of the search, per lock. Default 2,000,000. */
  readonly steps?: number;
  /** Grants, keys or calls that a checker may remember; what is older is not judged. Default 200,000. */
  readonly limit?: number;
  /** P5: when calls began is not known, so tokens must rise in the order of the answers. Default false. */
  readonly tokensInAnswerOrder?: boolean;
  /** P16: what must have happened, and how often at least. */
  readonly expect?: Readonly<Partial<Record<Happening, number>>>;
}

/** What P16 counts. */
export type Happening =
  | EvOp
  | "fault"
  | "expiry"
  | "second holder"
  | "late write"
  | "refused write"
  | "unknown outcome"
  | "claim gap";

/** A property being judged, event by event. `world` has already seen the event. */
export interface Fold {
  step(event: Ev, world: World): void;
  finish(world: World): Verdict;
}

/** A property and how it is judged. */
export interface Checker {
  readonly id: PropertyId;
  readonly title: string;
  /** In events n of the history. */
  readonly cost: string;
  /** `safety` broken is exit code 1, `liveness` 2; `vacuity` says whether the run proved anything. */
  readonly kind: "safety" | "liveness" | "vacuity";
  /** Its violations could be explained by an event that was not recorded. */
  readonly needsEveryEvent: boolean;
  fold(options?: CheckOptions): Fold;
  check(history: Iterable<Ev> | History, options?: CheckOptions): Verdict;
}

/** Makes a checker out of its fold. */
export function checker(
  facts: Pick<Checker, "id" | "title" | "cost"> & Partial<Checker>,
  fold: (options: CheckOptions, id: PropertyId, title: string) => Fold,
): Checker {
  const { id, title } = facts;
  const start = (options: CheckOptions = {}): Fold => fold(options, id, title);
  return {
    kind: "safety",
    needsEveryEvent: false,
    ...facts,
    fold: start,
    check(history, options = {}) {
      const world = new World(options.limit);
      const running = start(options);
      for (const event of history) {
        world.step(event);
        running.step(event, world);
      }
      return running.finish(world);
    },
  };
}

const SHOWN = 10;
const WITNESS = 6;

/** The book-keeping that all folds share. */
export abstract class Judge implements Fold {
  readonly options: CheckOptions;
  readonly epsilon: number;
  readonly limit: number;
  readonly notes: string[] = [];
  judged = 0;
  readonly #id: PropertyId;
  readonly #title: string;
  readonly #violations: (Violation & { readonly about: string | undefined })[] = [];
  readonly #reasons = new Set<string>();
  #count = 0;

  constructor(options: CheckOptions, id: PropertyId, title: string) {
    this.options = options;
    this.epsilon = options.epsilonNs ?? 0;
    this.limit = options.limit ?? 200_000;
    this.#id = id;
    this.#title = title;
  }

  abstract step(event: Ev, world: World): void;

  finish(world: World): Verdict {
    this.end?.(world);
    return {
      property: this.#id,
      title: this.#title,
      verdict: this.#count > 0 ? false : this.#reasons.size > 0 ? "unknown" : true,
      judged: this.judged,
      violations: this.#violations
        .slice(0, SHOWN)
        .map(({ sentence, witness }) => ({ sentence, witness })),
      violationCount: this.#count,
      reasons: [...this.#reasons],
      notes: this.notes,
    };
  }

  /** What is only known when the history is over. */
  protected end?(world: World): void;

  /** `about`: a grant whose later `revoke` excuses this violation. */
  protected violated(sentence: string, witness: readonly (Ev | undefined)[], about?: string): void {
    this.#count += 1;
    if (this.#violations.length >= SHOWN * 10) return;
    const events = [...new Set(witness.filter((event) => event !== undefined))];
    events.sort((a, b) => a.i - b.i);
    this.#violations.push({ sentence, witness: events.slice(0, WITNESS), about });
  }

  /** Takes back what was said about a grant. */
  protected excuse(about: string): void {
    for (let n = this.#violations.length - 1; n >= 0; n -= 1) {
      if (this.#violations[n]?.about !== about) continue;
      this.#violations.splice(n, 1);
      this.#count -= 1;
    }
  }

  protected undecided(reason: string): void {
    if (this.#reasons.size < SHOWN) this.#reasons.add(reason);
  }
}
