import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, who } from "./words.ts";
import { deleteOldest, type Lease, type World } from "./world.ts";

/** Tokens of one lock that are remembered to find one that comes twice; older ones are found by their order. */
const RECENT = 4096;

interface Minted {
  /** The answered grant with the largest token. */
  highest: Ev | undefined;
  latest: Lease | undefined;
  readonly recent: Map<bigint, Ev>;
}

/**
 * P5. No two grants of a lock have the same token, and a grant that was asked for after another had been answered has
 * the larger one. With `tokensInAnswerOrder` (where it is not recorded when a grant was asked for): a grant that came to
 * be held after another's belief had ended has the larger one.
 */
class Tokens extends Judge {
  readonly #locks = new Map<string, Minted>();
  /** The largest token answered when a call began, by number of the call. */
  readonly #asked = new Map<number, Ev>();

  step(event: Ev, world: World): void {
    const { f, k, lock, op } = event;
    if (f !== "acquire" || lock === undefined) return;
    if (k === "invoke") {
      const highest = this.#locks.get(lock)?.highest;
      if (op === undefined || highest === undefined) return;
      this.#asked.set(op, highest);
      if (this.#asked.size > this.limit) deleteOldest(this.#asked);
      return;
    }
    const before = op === undefined ? undefined : this.#asked.get(op);
    if (op !== undefined) this.#asked.delete(op);
    if (k === "ok" && event.token !== undefined) this.#granted(event, event.token, before, world);
  }

  #granted(event: Ev, token: bigint, before: Ev | undefined, world: World): void {
    const { lock = "" } = event;
    this.judged += 1;
    let minted = this.#locks.get(lock);
    if (minted === undefined) {
      minted = { highest: undefined, latest: undefined, recent: new Map() };
      this.#locks.set(lock, minted);
    }
    const twin = minted.recent.get(token);
    if (twin !== undefined && twin.grant !== event.grant)
      this.violated(
        `Two grants of ${name(lock)} have the token ${token.toString()}: ${twin.p} at ${at(twin.t, world.origin)}, and ${event.p} at ${at(event.t, world.origin)}.`,
        [twin, event],
      );
    else this.#ordered(event, token, this.#inOrder(minted, before, world), world);
    if (twin === undefined) minted.recent.set(token, event);
    if (minted.recent.size > RECENT) deleteOldest(minted.recent);
    if (minted.highest?.token === undefined || token > minted.highest.token) minted.highest = event;
    minted.latest = world.lease;
  }

  /** The grant that this one must exceed. */
  #inOrder({ latest }: Minted, before: Ev | undefined, world: World): Ev | undefined {
    if (this.options.tokensInAnswerOrder !== true || latest === undefined) return before;
    // Overlapping beliefs say nothing about the order in which their grants were made.
    return world.believes(latest, world.now) ? before : latest.acquired;
  }

  #ordered(event: Ev, token: bigint, before: Ev | undefined, world: World): void {
    if (before?.token === undefined || token > before.token) return;
    if (token === before.token && before.grant === event.grant) return;
    this.violated(
      `The tokens of ${name(event.lock)} went back: ${who(before)} at ${at(before.t, world.origin)}, then ${who(event)} at ${at(event.t, world.origin)}.`,
      [before, world.call, event],
    );
  }
}

export const tokens: Checker = checker(
  {
    id: "P5",
    title: "fencing tokens are unique and rise with every grant",
    cost: "O(1) per event",
  },
  (...facts) => new Tokens(...facts),
);
