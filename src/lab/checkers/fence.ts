import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, who } from "./words.ts";
import type { World } from "./world.ts";

/** P3. What a resource accepts never goes back: the token rises, or is the same grant's again. */
class Fence extends Judge {
  readonly #highest = new Map<string, Ev>();

  step(event: Ev, world: World): void {
    const { f, res, token, accepted } = event;
    if (!world.lands || (f !== "claim" && f !== "write")) return;
    if (res === undefined || token === undefined || accepted !== true) return;
    this.judged += 1;
    const highest = this.#highest.get(res);
    if (highest?.token === undefined || token > highest.token) {
      this.#highest.set(res, event);
      return;
    }
    if (token < highest.token)
      this.violated(
        `${name(res)} accepted a ${f} of ${who(event)} at ${at(event.t, world.origin)}, after it had accepted ${who(highest)} at ${at(highest.t, world.origin)}.`,
        [highest, event],
      );
    else if (event.grant !== highest.grant)
      this.violated(
        `${name(res)} accepted the token ${token.toString()} for two grants: of ${highest.p} at ${at(highest.t, world.origin)}, and of ${event.p} at ${at(event.t, world.origin)}.`,
        [highest, event],
      );
  }
}

export const fence: Checker = checker(
  {
    id: "P3",
    title: "what a resource accepts never goes back to an older grant",
    cost: "O(1) per event",
  },
  (...facts) => new Fence(...facts),
);
