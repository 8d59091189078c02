import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, span, who } from "./words.ts";
import type { Lease, World } from "./world.ts";

/** Notices later than this after the deadline are worth a line. */
const LATE_NS = 1e6;

/**
 * P1. A belief lasts from the answer of acquire to the deadline on the client's own clock, or to its call of release or
 * the notice of loss, whichever is first. A pause does not lengthen it: the deadline is a time, not an action. How late
 * the notices were is reported apart.
 */
class Belief extends Judge {
  #notices = 0;
  #late = 0;
  #worst: { readonly ns: number; readonly event: Ev } | undefined;

  step(event: Ev, world: World): void {
    const { lease } = world;
    if (lease === undefined) return;
    if (event.f === "lost" && event.k === "event") this.#notice(event, lease, world);
    else if (event.f === "revoke") this.excuse(lease.grant);
    else if (event.k !== "ok") return;
    else if (event.f === "acquire" && lease.acquired === event) this.#begins(event, lease, world);
    else if (event.f === "renew" && lease.ended === undefined) this.#goesOn(event, lease, world);
  }

  protected override end(): void {
    if (this.#worst === undefined) return;
    const { ns, event } = this.#worst;
    this.notes.push(
      `${this.#late} of ${this.#notices} notices of loss came after the deadline; the latest by ${span(ns)}, to ${who(event)}`,
    );
  }

  #begins(event: Ev, lease: Lease, world: World): void {
    this.judged += 1;
    const others = world
      .open(lease.lock)
      .filter((other) => other !== lease && world.believes(other, event.t, this.epsilon));
    if (lease.mode === "permits") {
      const { permits } = event;
      if (permits === undefined) this.undecided("how many permits there are is not recorded");
      else if (others.length >= permits) this.#overlap(event, lease, others[0], world);
      return;
    }
    const conflict = others.find((other) => lease.mode !== "shared" || other.mode !== "shared");
    if (conflict !== undefined) this.#overlap(event, lease, conflict, world);
  }

  /** A renewal that makes a lapsed belief live again meets whoever came meanwhile. */
  #goesOn(event: Ev, lease: Lease, world: World): void {
    const { succeeded } = lease;
    if (lease.mode !== "exclusive" || succeeded === undefined) return;
    const other = world
      .open(lease.lock)
      .find(
        (open) =>
          open !== lease &&
          open.acquired.t >= succeeded.t &&
          world.believes(open, event.t, this.epsilon),
      );
    // Those that already believed when the other came were told of then.
    if (other === undefined || event.deadline === undefined) return;
    this.violated(
      `${who(lease)} renewed ${name(lease.lock)} at ${at(event.t, world.origin)} and believes again, while ${who(other)} holds it since ${at(other.acquired.t, world.origin)}.`,
      [lease.acquired, other.acquired, event],
      lease.grant,
    );
  }

  #overlap(event: Ev, lease: Lease, other: Lease | undefined, world: World): void {
    if (other === undefined) return;
    const sentence =
      `${who(lease)} came to hold ${name(lease.lock)} at ${at(event.t, world.origin)}, while ${who(other)} could still ` +
      `believe until ${at(world.endOf(other), world.origin)}.`;
    if (lease.acquired.clock !== other.acquired.clock) {
      this.undecided(`The clocks of two hosts or boots agree only roughly: ${sentence}`);
      return;
    }
    this.violated(sentence, [other.acquired, other.renewed, event], other.grant);
  }

  #notice(event: Ev, lease: Lease, world: World): void {
    this.#notices += 1;
    const clockEnd = lease.deadline - world.local(lease.p, event.t);
    if (clockEnd >= -LATE_NS) return;
    this.#late += 1;
    if (-clockEnd > (this.#worst?.ns ?? 0)) this.#worst = { ns: -clockEnd, event };
  }
}

export const belief: Checker = checker(
  {
    id: "P1",
    title: "no two clients believe that they hold one exclusive lock at the same time",
    cost: "O(1) per event and lock",
    needsEveryEvent: true,
  },
  (...facts) => new Belief(...facts),
);
