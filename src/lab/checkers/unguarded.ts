import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name } from "./words.ts";
import type { World } from "./world.ts";

/** P15. Every accepted write to a resource that was ever claimed, or written with a token, carries one. */
class Unguarded extends Judge {
  readonly #guarded = new Map<string, Ev>();

  step(event: Ev, world: World): void {
    const { f, res, token, accepted } = event;
    if (!world.lands || (f !== "claim" && f !== "write")) return;
    if (res === undefined || accepted !== true) return;
    if (token !== undefined) {
      if (!this.#guarded.has(res)) this.#guarded.set(res, event);
      if (f === "write") this.judged += 1;
      return;
    }
    const guarded = this.#guarded.get(res);
    if (guarded === undefined || f === "claim") return;
    this.judged += 1;
    const path = event.path === undefined ? "" : ` by the path ${name(event.path)}`;
    this.violated(
      `${event.p} wrote ${name(res)} without a token${path} at ${at(event.t, world.origin)}, accepted; it is guarded since ${at(guarded.t, world.origin)}.`,
      [guarded, event],
    );
  }
}

export const unguarded: Checker = checker(
  {
    id: "P15",
    title: "every accepted write to a guarded resource carries a token",
    cost: "O(1) per event",
  },
  (...facts) => new Unguarded(...facts),
);
