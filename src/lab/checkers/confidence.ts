import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, span, who } from "./words.ts";
import { deleteOldest, type Lease, type World } from "./world.ts";

/**
 * P6. While a client believes, or is told by its lease that it holds, the server keeps its grant. Needs the server's own
 * steps in the history.
 */
class Confidence extends Judge {
  /** Grants that the server let go, and when; `undefined`: live. */
  readonly #server = new Map<string, Ev | undefined>();

  step(event: Ev, world: World): void {
    const { f, grant } = event;
    if (grant === undefined) return;
    if (f === "srv.grant" || f === "srv.renew") this.#server.set(grant, undefined);
    else if (f === "srv.expire" || f === "srv.release") this.#gone(event, grant, world);
    else if (f === "held?" && event.accepted === true) this.#sure(event, grant, world);
    else if (f === "acquire" && event.k === "ok" && world.lease !== undefined)
      this.#late(event, grant, world.lease, world);
    if (this.#server.size > this.limit) deleteOldest(this.#server);
  }

  #gone(event: Ev, grant: string, world: World): void {
    this.#server.set(grant, event);
    const { lease } = world;
    if (lease === undefined) return;
    this.judged += 1;
    if (lease.revoked || !world.believes(lease, event.t, this.epsilon)) return;
    this.#false(lease, event, event, world);
  }

  #sure(event: Ev, grant: string, world: World): void {
    if (!this.#server.has(grant)) return;
    this.judged += 1;
    const gone = this.#server.get(grant);
    if (gone === undefined || event.t - gone.t <= this.epsilon) return;
    if (world.lease?.revoked === true) return;
    this.violated(
      `${who(event)} was told at ${at(event.t, world.origin)} that it holds ${name(event.lock ?? world.lease?.lock)}, which the server had let go at ${at(gone.t, world.origin)}.`,
      [world.lease?.acquired, gone, event],
    );
  }

  /** The answer of a grant that is already gone, with a deadline that has not passed. */
  #late(event: Ev, grant: string, lease: Lease, world: World): void {
    const gone = this.#server.get(grant);
    if (gone === undefined || lease.acquired !== event) return;
    if (world.believes(lease, event.t, this.epsilon)) this.#false(lease, gone, event, world);
  }

  #false(lease: Lease, gone: Ev, event: Ev, world: World): void {
    const until = world.endOf(lease);
    const why = gone.f === "srv.expire" ? "let it lapse" : "let it go";
    this.violated(
      `${who(lease)} could believe that it holds ${name(lease.lock)} until ${at(until, world.origin)}; the server ${why} at ${at(gone.t, world.origin)}: ${span(until - Math.max(gone.t, lease.acquired.t))} of false confidence.`,
      [lease.acquired, lease.renewed, gone, event],
    );
  }
}

export const confidence: Checker = checker(
  {
    id: "P6",
    title: "nobody believes in a lease that the server has let go",
    cost: "O(1) per event",
  },
  (...facts) => new Confidence(...facts),
);

interface Owed {
  readonly lease: Lease;
  readonly expired: Ev;
  readonly pausedNs: number;
}

/** P7. A client whose grant lapsed at the server is told within the bound; time in which it stood still does not count. */
class Notices extends Judge {
  readonly #bound: number = this.options.noticeNs ?? 250e6;
  readonly #owed = new Map<Lease, Owed>();

  step(event: Ev, world: World): void {
    const { f, k } = event;
    const { lease } = world;
    if (f === "fault.kill") {
      for (const owedTo of this.#owed.keys()) if (owedTo.p === event.p) this.#owed.delete(owedTo);
      return;
    }
    if (lease === undefined) return;
    if (f === "srv.expire") {
      if (lease.ended !== undefined || world.isDead(lease.p)) {
        if (lease.ended?.f === "lost") this.judged += 1;
        return;
      }
      this.#owed.set(lease, { lease, expired: event, pausedNs: world.pausedNs(lease.p) });
    } else if (f === "lost" || (f === "release" && k === "invoke")) {
      const owed = this.#owed.get(lease);
      if (owed !== undefined) this.#settle(owed, event, world);
    }
  }

  protected override end(world: World): void {
    for (const owed of [...this.#owed.values()]) this.#settle(owed, undefined, world);
  }

  #settle(owed: Owed, told: Ev | undefined, world: World): void {
    const { lease, expired } = owed;
    this.#owed.delete(lease);
    const awake = world.now - expired.t - (world.pausedNs(lease.p) - owed.pausedNs);
    if (told === undefined && awake <= this.#bound + this.epsilon) return;
    this.judged += 1;
    if (awake <= this.#bound + this.epsilon) return;
    const when =
      told === undefined ? "was never told" : `was told only at ${at(told.t, world.origin)}`;
    this.violated(
      `The server let ${who(lease)}'s lease of ${name(lease.lock)} lapse at ${at(expired.t, world.origin)}; the client ${when}, after ${span(awake)} awake (bound ${span(this.#bound)}).`,
      [lease.acquired, lease.renewed, expired, told],
    );
  }
}

export const notices: Checker = checker(
  {
    id: "P7",
    title: "who lost its lease is told in time",
    cost: "O(1) per event",
    needsEveryEvent: true,
  },
  (...facts) => new Notices(...facts),
);
