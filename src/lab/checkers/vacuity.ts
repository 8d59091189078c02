import type { Ev } from "../history.ts";
import { type Checker, checker, type Happening, Judge, type Verdict } from "./verdict.ts";
import type { World } from "./world.ts";

/**
 * P16. The run contained what it claims to survive: the fault, an expiry, a second holder, a late write. What was expected
 * and did not happen makes the run inconclusive, never held.
 */
class Vacuity extends Judge {
  readonly #counts = new Map<Happening, number>();
  readonly #claimed = new Map<string, string>();
  readonly #holder = new Map<string, string>();

  step(event: Ev, world: World): void {
    const { f, k } = event;
    if (k !== "invoke") this.#count(f);
    if (f.startsWith("fault.")) this.#count("fault");
    if (k === "info") this.#count("unknown outcome");
    if (f === "srv.expire" || f === "lost") this.#count("expiry");
    const { lease } = world;
    if (f === "acquire" && k === "ok" && lease?.acquired === event) {
      const before = this.#holder.get(lease.lock);
      if (before !== undefined && before !== lease.p) this.#count("second holder");
      this.#holder.set(lease.lock, lease.p);
    }
    if (world.lands) this.#action(event, world);
  }

  protected override end(): void {
    this.judged = 1;
    const counts = [...this.#counts].map(([what, count]) => `${what}: ${count}`);
    this.notes.push(counts.join(", "));
    for (const [what, least] of Object.entries(this.options.expect ?? {})) {
      const count = this.#counts.get(what as Happening) ?? 0;
      if (count < least)
        this.undecided(`inconclusive: "${what}" happened ${count} times, expected ${least}`);
    }
  }

  #action(event: Ev, world: World): void {
    const { f, res, grant, accepted } = event;
    if (accepted === false && f !== "effect") this.#count("refused write");
    if (res === undefined || grant === undefined) return;
    if (f === "claim" && accepted === true) this.#claimed.set(res, grant);
    if (f !== "write") return;
    const { lease } = world;
    if (lease === undefined || world.believes(lease, event.t)) return;
    this.#count("late write");
    // The successor holds, but the resource has not heard of it yet.
    if (lease.succeeded !== undefined && this.#claimed.get(res) !== lease.succeeded.grant)
      this.#count("claim gap");
  }

  #count(what: Happening): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }
}

export const vacuity: Checker = checker(
  {
    id: "P16",
    title: "the run contained what it claims to survive",
    cost: "O(1) per event",
    kind: "vacuity",
  },
  (...facts) => new Vacuity(...facts),
);

/** How a scenario ended. */
export type Conclusion = "held" | "violated" | "no progress" | "undecided" | "inconclusive";

/**
 * What a property's verdict is worth beside the naive arm's. An arm without protection that does not fail shows that
 * the run contained no danger: then nothing was proven.
 */
export function conclude(ours: Verdict, naive: Verdict | undefined): Conclusion {
  if (ours.verdict === false)
    return ours.property === "P8" || ours.property === "P9" ? "no progress" : "violated";
  if (naive !== undefined && naive.verdict !== false) return "inconclusive";
  if (ours.verdict === "unknown") return "undecided";
  return ours.judged === 0 ? "inconclusive" : "held";
}
