import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, span, who } from "./words.ts";
import type { World } from "./world.ts";

interface Line {
  /** The server has told of its queue; without one there is no order to keep. */
  queues: boolean;
  /** Live waiters by grant id, in the server's order. */
  readonly waiting: Map<string, Ev>;
  /** What may be answered with one wake-up: a release, an expiry, a lapsed offer. */
  freed: Ev | undefined;
  woken: Ev | undefined;
  /** The grant that the server has given last. */
  granted: string | undefined;
  /** A free lock with live waiters, since then. */
  idle: Ev | undefined;
}

/**
 * P9. On backends that queue: a) grants follow the server's order of live waiters; b) one release wakes one waiter;
 * c) no wake-up is lost: with live waiters a free lock is granted within `progressNs` (not while faults last).
 */
class Queue extends Judge {
  readonly #bound: number = this.options.progressNs ?? 5e9;
  readonly #lines = new Map<string, Line>();

  step(event: Ev, world: World): void {
    const { f, k, lock, grant } = event;
    if (f === "fault.kill") this.#died(event);
    if (lock === undefined) return;
    const line = this.#line(lock);
    this.#judgeIdle(line, world);
    if (f === "enqueue") {
      line.queues = true;
      if (grant !== undefined) line.waiting.set(grant, event);
    } else if (f === "srv.grant" || (f === "acquire" && k === "ok"))
      this.#granted(event, line, world);
    else if (f === "leave") {
      if (grant !== undefined) line.waiting.delete(grant);
      this.#freed(line, event);
    } else if (f === "wakeup") this.#woken(event, line, world);
    else if (f === "srv.release" || f === "srv.expire" || (f === "release" && k === "ok")) {
      if (grant !== undefined && line.granted !== grant && f !== "srv.expire") return;
      line.granted = undefined;
      this.#freed(line, event);
      line.idle = event;
    }
  }

  protected override end(world: World): void {
    for (const line of this.#lines.values()) this.#judgeIdle(line, world);
  }

  #freed(line: Line, event: Ev): void {
    line.freed = event;
    line.woken = undefined;
  }

  #died({ p }: Ev): void {
    for (const line of this.#lines.values())
      for (const [grant, waiter] of line.waiting) if (waiter.p === p) line.waiting.delete(grant);
  }

  #granted(event: Ev, line: Line, world: World): void {
    const { grant, lock } = event;
    line.idle = undefined;
    // The server has said so before the client did, or the process hands on what it has.
    if (grant === undefined || grant === line.granted) return;
    line.granted = grant;
    if (line.queues) this.judged += 1;
    const [head] = line.waiting.values();
    const own = line.waiting.get(grant);
    line.waiting.delete(grant);
    if (head === undefined || head === own) return;
    this.violated(
      `${who(event)} was granted ${name(lock)} at ${at(event.t, world.origin)}, before ${who(head)}, which queues since ${at(head.t, world.origin)}.`,
      [head, own, event],
    );
  }

  #woken(event: Ev, line: Line, world: World): void {
    this.judged += 1;
    const { woken, freed } = line;
    line.woken = event;
    if (woken === undefined || woken.grant === event.grant) return;
    this.violated(
      `One release of ${name(event.lock)} woke two waiters: ${who(woken)} at ${at(woken.t, world.origin)}, and ${who(event)} at ${at(event.t, world.origin)}.`,
      [freed, woken, event],
    );
  }

  #judgeIdle(line: Line, world: World): void {
    const { idle } = line;
    if (idle === undefined || world.chaos) return;
    const waiter = [...line.waiting.values()].find(
      ({ p }) => !world.isDead(p) && !world.isPaused(p),
    );
    if (waiter === undefined) return;
    const since = Math.max(idle.t, waiter.t, world.healedAt ?? 0);
    if (world.now - since <= this.#bound + this.epsilon) return;
    line.idle = undefined;
    this.violated(
      `${name(idle.lock)} is free since ${at(idle.t, world.origin)} and ${who(waiter)} queues since ${at(waiter.t, world.origin)}, but was not granted it within ${span(this.#bound)}: the wake-up was lost.`,
      [idle, waiter],
    );
  }

  #line(lock: string): Line {
    let line = this.#lines.get(lock);
    if (line === undefined) {
      line = {
        queues: false,
        waiting: new Map(),
        freed: undefined,
        woken: undefined,
        granted: undefined,
        idle: undefined,
      };
      this.#lines.set(lock, line);
    }
    return line;
  }
}

export const queue: Checker = checker(
  {
    id: "P9",
    title: "waiters are served in order, one wake-up a release, none lost",
    cost: "O(1) per event",
    kind: "liveness",
    needsEveryEvent: true,
  },
  (...facts) => new Queue(...facts),
);
