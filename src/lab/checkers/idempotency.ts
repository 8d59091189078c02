import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, who } from "./words.ts";
import { deleteOldest, type World } from "./world.ts";

/**
 * P10. Per idempotency key at most one effect; the same key with the same body gets the same response, with another body
 * an error.
 */
class Idempotency extends Judge {
  readonly #effects = new Map<string, Ev>();

  step(event: Ev, world: World): void {
    const { f, idem, res } = event;
    if (f !== "effect" || idem === undefined || !world.lands || event.err !== undefined) return;
    this.judged += 1;
    const key = `${res ?? ""} ${idem}`;
    const first = this.#effects.get(key);
    if (first === undefined) {
      this.#effects.set(key, event);
      if (this.#effects.size > this.limit) {
        deleteOldest(this.#effects);
        this.undecided("there are more idempotency keys than are remembered");
      }
      return;
    }
    const when = `${name(idem)}: ${who(first)} at ${at(first.t, world.origin)}, ${who(event)} at ${at(event.t, world.origin)}`;
    if (event.accepted === true)
      this.violated(`The effect took place twice under ${when}.`, [first, event]);
    else if (event.body !== first.body)
      this.violated(`Two bodies were answered alike under ${when}.`, [first, event]);
    else if (event.ver !== first.ver)
      this.violated(`Two different responses were given under ${when}.`, [first, event]);
  }
}

export const idempotency: Checker = checker(
  {
    id: "P10",
    title: "at most one effect per idempotency key",
    cost: "O(1) per event, one entry a key",
  },
  (...facts) => new Idempotency(...facts),
);
