import type { Ev } from "../history.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, who } from "./words.ts";
import { deleteOldest, type Lease, type World } from "./world.ts";

/**
 * P11. A release or renewal of somebody who is not the owner changes nothing: neither does the server touch another grant
 * than the one that asked, nor does it answer "done" while another holds that came before the call.
 */
class Ownership extends Judge {
  step(event: Ev, world: World): void {
    const { f, k, grant } = event;
    if (f === "srv.release" || f === "srv.renew") {
      const { call } = world;
      if (call?.grant === undefined || grant === undefined) return;
      this.judged += 1;
      if (call.grant === grant) return;
      const verb = f === "srv.release" ? "freed" : "renewed";
      this.violated(
        `The ${call.f} of ${who(call)} ${verb} the grant of ${who(world.lease ?? event)} on ${name(event.lock ?? call.lock)} at ${at(event.t, world.origin)}.`,
        [world.lease?.acquired, call, event],
      );
      return;
    }
    if ((f !== "release" && f !== "renew") || k !== "ok") return;
    const { lease, call } = world;
    if (lease?.mode !== "exclusive" || call === undefined) return;
    this.judged += 1;
    const owner = world
      .open(lease.lock)
      .find(
        (other) =>
          other !== lease &&
          other.grant !== lease.grant &&
          other.acquired.t + this.epsilon < call.t &&
          world.believes(other, event.t, this.epsilon),
      );
    if (owner === undefined) return;
    this.violated(
      `${who(lease)} was told at ${at(event.t, world.origin)} that its ${f} of ${name(lease.lock)} was done, though ${who(owner)} holds it since ${at(owner.acquired.t, world.origin)}.`,
      [lease.acquired, owner.acquired, call, event],
    );
  }
}

export const ownership: Checker = checker(
  { id: "P11", title: "who does not own a grant cannot change it", cost: "O(1) per event" },
  (...facts) => new Ownership(...facts),
);

/** P14. A renewal never changes the token, never succeeds after another grant, never brings back what was over. */
class Renewal extends Judge {
  /** Leases whose release was confirmed, or that the server let go. */
  readonly #over = new Map<Lease, Ev>();

  step(event: Ev, world: World): void {
    const { f, k, grant } = event;
    // With another token it is still the renewal of this grant.
    const lease = world.lease ?? world.leaseOf(grant === undefined ? {} : { grant });
    if (lease === undefined) return;
    if (f === "srv.expire" || f === "srv.release" || (f === "release" && k === "ok")) {
      if (!this.#over.has(lease)) this.#over.set(lease, event);
      if (this.#over.size > this.limit) deleteOldest(this.#over);
    } else if (f === "srv.grant") this.#over.delete(lease);
    else if (f === "srv.renew") this.#lives(event, event.t, lease, world);
    else if (f === "renew" && k === "ok") this.#renewed(event, lease, world);
  }

  #renewed(event: Ev, lease: Lease, world: World): void {
    const asked = world.call?.t ?? event.t;
    if (!this.#lives(event, asked, lease, world)) return;
    const { succeeded } = lease;
    if (lease.mode !== "exclusive" || succeeded === undefined) return;
    if (succeeded.grant === lease.grant || succeeded.t + this.epsilon >= asked) return;
    // Without a recorded call the answer may have been on its way when the other came.
    if (world.call === undefined) return;
    this.violated(
      `${who(lease)} renewed ${name(lease.lock)} at ${at(event.t, world.origin)}, after ${who(succeeded)} had come to hold it at ${at(succeeded.t, world.origin)}.`,
      [lease.acquired, succeeded, world.call, event],
    );
  }

  #lives(event: Ev, asked: number, lease: Lease, world: World): boolean {
    this.judged += 1;
    const when = at(event.t, world.origin);
    if (event.token !== undefined && lease.token !== undefined && event.token !== lease.token) {
      this.violated(
        `A renewal at ${when} changed the token of ${who(lease)} on ${name(lease.lock)} to ${event.token.toString()}.`,
        [lease.acquired, event],
      );
      return false;
    }
    const over = this.#over.get(lease);
    if (over === undefined || over.t + this.epsilon >= asked) return true;
    this.violated(
      `A renewal at ${when} brought the lease of ${who(lease)} on ${name(lease.lock)} back, which had ended at ${at(over.t, world.origin)}.`,
      [lease.acquired, over, event],
    );
    return false;
  }
}

export const renewal: Checker = checker(
  { id: "P14", title: "a renewal creates nothing and changes no token", cost: "O(1) per event" },
  (...facts) => new Renewal(...facts),
);
