import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, who } from "./words.ts";
import type { World } from "./world.ts";

/**
 * P2. An action is issued while its client believes, and takes effect before anybody else comes to hold the lock: quiet
 * time after a vanished holder (lock-delay) is time in which its last packets may land. Refused actions count as well:
 * that they were refused is P3.
 */
class Actions extends Judge {
  step(event: Ev, world: World): void {
    const { f, k } = event;
    if (f !== "claim" && f !== "write" && f !== "effect") return;
    if (event.grant === undefined) return;
    const issued = k === "invoke";
    if (!issued && !world.lands) return;
    const { lease } = world;
    if (lease === undefined) {
      this.undecided("an action names a grant that is not, or no longer, known");
      return;
    }
    this.judged += 1;
    const where = name(event.res ?? event.idem);
    if (issued || (world.call === undefined && event.op === undefined)) {
      if (world.believes(lease, event.t - this.epsilon)) return;
      this.violated(
        `${who(lease)} issued a ${f} to ${where} at ${at(event.t, world.origin)}, after its lease had ended at ${at(world.endOf(lease), world.origin)}.`,
        [lease.acquired, lease.renewed, lease.ended, event],
      );
      return;
    }
    const next = lease.succeeded;
    if (next === undefined || lease.mode !== "exclusive" || next.t + this.epsilon >= event.t)
      return;
    this.violated(
      `A ${f} of ${who(lease)} reached ${where} at ${at(event.t, world.origin)}, after ${who(next)} had come to hold the lock at ${at(next.t, world.origin)}.`,
      [lease.acquired, world.call, next, event],
    );
  }
}

export const actions: Checker = checker(
  {
    id: "P2",
    title: "every action is issued and lands inside its grant",
    cost: "O(1) per event",
    needsEveryEvent: true,
  },
  (...facts) => new Actions(...facts),
);
