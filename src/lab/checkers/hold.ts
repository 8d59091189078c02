import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, span, who } from "./words.ts";
import type { Lease, World } from "./world.ts";

/** P13. Nobody holds longer than the longest hold that was agreed. */
class Hold extends Judge {
  readonly #told = new WeakSet<Lease>();
  readonly #holds = new Set<Lease>();

  step(event: Ev, world: World): void {
    const { maxHoldNs } = this.options;
    const { lease } = world;
    if (maxHoldNs === undefined || lease === undefined) return;
    if (event.f === "acquire" && event.k === "ok") this.#holds.add(lease);
    if (event.f !== "renew" && event.f !== "release" && event.f !== "lost" && event.f !== "held?")
      return;
    if (event.f === "held?" && event.accepted !== true) return;
    this.#judge(lease, event, maxHoldNs, world);
    if (lease.ended !== undefined) this.#holds.delete(lease);
  }

  protected override end(world: World): void {
    const { maxHoldNs } = this.options;
    if (maxHoldNs === undefined) return;
    for (const lease of this.#holds) this.#judge(lease, undefined, maxHoldNs, world);
  }

  #judge(lease: Lease, event: Ev | undefined, maxHoldNs: number, world: World): void {
    this.judged += 1;
    const end = Math.min(world.now, world.endOf(lease));
    const held = end - lease.acquired.t;
    if (held <= maxHoldNs + (this.options.noticeNs ?? 250e6) + this.epsilon) return;
    if (this.#told.has(lease)) return;
    this.#told.add(lease);
    this.violated(
      `${who(lease)} held ${name(lease.lock)} from ${at(lease.acquired.t, world.origin)} to ${at(end, world.origin)}: ${span(held)}, with ${span(maxHoldNs)} agreed.`,
      [lease.acquired, lease.renewed, event],
    );
  }
}

export const hold: Checker = checker(
  { id: "P13", title: "nobody holds longer than agreed", cost: "O(1) per event" },
  (...facts) => new Hold(...facts),
);
