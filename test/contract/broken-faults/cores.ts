import { DueQueue } from "../../../src/core/due-queue.ts";
import { AcquireTimeoutError } from "../../../src/core/errors.ts";
import { Keepalive } from "../../../src/core/keepalive.ts";
import { LeaseKeeper } from "../../../src/core/lease-keeper.ts";
import { Link } from "../../../src/core/link.ts";
import { LiveLease } from "../../../src/core/live-lease.ts";
import { NameQueue } from "../../../src/core/local-queue.ts";
import { Returns } from "../../../src/core/returns.ts";
import { Tenure } from "../../../src/core/tenure.ts";
import { Ticket } from "../../../src/core/ticket.ts";
import { HolderClock } from "../../../src/core/validity.ts";
import { Grant } from "../../../src/drivers/memory/grant.ts";
import { memoryDriver } from "../../../src/drivers/memory/index.ts";
import type { BrokenDriver } from "../broken/broken-driver.ts";
import { sabotaged } from "../broken/broken-driver.ts";
import { twistedDriver } from "../twisted-driver.ts";

/** A store that keeps a lapsed lease's lock-delay as part of its ttl, as Redis does: a late release would end it. */
function delayInTtl(): ReturnType<typeof twistedDriver> {
  return twistedDriver((inner) => ({
    attempt: async (ask, io) => {
      const ttlMs = ask.ttlMs + ask.lockDelayMs;
      const answer = await inner.attempt({ ...ask, ttlMs, lockDelayMs: 0 }, io);
      return answer.kind === "granted" ? { ...answer, ttlMs: ask.ttlMs } : answer;
    },
    renew: async (refs, io) =>
      inner.renew(
        refs.map((ref) => ({ ...ref, ttlMs: ref.ttlMs + ref.lockDelayMs, lockDelayMs: 0 })),
        io,
      ),
  }));
}

/** A store that obeys the latest packet, however late it is: the core alone keeps its holders' beliefs short. */
function obedient(broken: BrokenDriver): BrokenDriver {
  const restart = sabotaged(
    "",
    "",
    Grant.prototype,
    "restart",
    () =>
      function (this: Grant, now, terms) {
        this.expiresAt = now + terms.ttlMs;
        this.ttlMs = terms.ttlMs;
        this.lockDelayMs = terms.lockDelayMs;
      },
  );
  return {
    ...broken,
    make: () =>
      twistedDriver((inner) => ({
        async attempt(ask, io) {
          const answer = await inner.attempt(ask, io);
          if (answer.kind === "granted") await inner.renew([ask], io);
          return answer;
        },
      })),
    sabotage() {
      const undo = [restart.sabotage?.(), broken.sabotage?.()];
      return () => {
        for (const restore of undo) restore?.();
      };
    },
  };
}

/** The lock manager as it is. */
const SOUND_CORE: BrokenDriver = { fault: "", caughtBy: "", make: memoryDriver };

/** Not broken: even on a store that obeys late packets every promise is kept. */
export const OBEDIENT_STORE: BrokenDriver = obedient(SOUND_CORE);

/** Faults of the lock manager itself, on a driver that is right. */
export const FAULTY_CORES: readonly BrokenDriver[] = [
  obedient(
    sabotaged(
      "a request that may arrive alone does not bound the belief",
      "a holder whose renewal for a shorter time was applied unheard believes no longer",
      Tenure.prototype,
      "sending",
      () => () => undefined,
    ),
  ),
  obedient(
    sabotaged(
      "requests that may still arrive are forgotten",
      "a late ask that arrives at a lease renewed for longer cuts no belief short",
      Tenure.prototype,
      "mayArrive",
      () => () => undefined,
    ),
  ),
  obedient(
    sabotaged(
      "late renewals are forgotten",
      "a late renewal for a shorter time leaves no belief that is longer",
      Tenure.prototype,
      "mayArrive",
      () => () => undefined,
    ),
  ),
  sabotaged(
    "a read does not look at the clock",
    "a holder that was stopped sees at its first read that the lease is lost",
    LiveLease.prototype,
    "checkClock",
    () => () => undefined,
  ),
  sabotaged(
    "a grant is believed however late its answer comes",
    "a grant that its caller slept through is no lease, and the caller asks on",
    NameQueue.prototype,
    "granted",
    (original) =>
      function (this: NameQueue, ticket, granted) {
        return original.call(this, ticket, granted, Number.MAX_SAFE_INTEGER);
      },
  ),
  sabotaged(
    "a holder's clock stands still while the host sleeps",
    "a host that slept through the ttl finds the lease lost at the first read",
    HolderClock.prototype,
    "now",
    (original) =>
      function (this: HolderClock) {
        return original.call(this) - this.sleptMs;
      },
  ),
  sabotaged(
    "a wall step ends leases",
    "ten minutes forward under a holder cost one early renewal and nothing else",
    Keepalive.prototype,
    "doubtAll",
    () =>
      function (this: Keepalive) {
        for (const { lease } of this.tenures()) lease?.apply({ kind: "deadline" });
      },
  ),
  sabotaged(
    "who stops waiting tells nobody",
    "a waiter that was aborted never becomes a holder",
    Ticket.prototype,
    "abandon",
    () => async () => ({ kind: "released" }),
  ),
  sabotaged(
    "nothing is given back",
    "a grant that races with an abort is undone at once",
    Returns.prototype,
    "give",
    () => async () => ({ kind: "released" }),
  ),
  sabotaged(
    "what is given back leaves no tombstone",
    "an ask that arrives after its try failed grants nothing",
    Returns.prototype,
    "give",
    (original) =>
      async function (this: Returns, order) {
        return await original.call(this, { ...order, late: false });
      },
  ),
  sabotaged(
    "a release is forgotten when its reply is lost",
    "a release whose reply was lost is a release, and frees the name",
    LeaseKeeper.prototype,
    "release",
    (original) =>
      function (this: LeaseKeeper, lease, done) {
        // As if the first try had been sent too late to have freed anything.
        lease.tenure.deadline = -Infinity;
        original.call(this, lease, done);
      },
  ),
  sabotaged(
    "an outage at the end of a wait is called a busy lock",
    "a wait that ends in an outage is an outage, not a busy lock",
    NameQueue.prototype,
    "waitIsOver",
    (original) =>
      function (this: NameQueue, waiter) {
        if (waiter.ticket !== undefined) waiter.ticket.failure = undefined;
        original.call(this, waiter);
      },
  ),
  sabotaged(
    "an outage before the first answer is waited out",
    "an acquire that meets an outage says so within 5 s, however long it would wait",
    NameQueue.prototype,
    "failed",
    () => () => undefined,
  ),
  sabotaged(
    "an acquire that meets an outage says that it waited",
    "an acquire that meets an outage and would wait less says so then",
    NameQueue.prototype,
    "waitIsOver",
    (original) =>
      function (this: NameQueue, waiter) {
        waiter.reject(
          new AcquireTimeoutError(this.name, { waitedMs: 0, attempts: 0, holder: null }),
        );
        original.call(this, waiter);
      },
  ),
  {
    ...sabotaged(
      "a lost lease is released all the same",
      "a holder that lost its lease and then releases cuts no lock-delay short",
      LeaseKeeper.prototype,
      "told",
      (original) =>
        function (this: LeaseKeeper, lease, output, cause) {
          original.call(this, lease, output, cause);
          if (output === "lost") void this.giveBack(lease.tenure);
        },
    ),
    make: delayInTtl,
  },
  sabotaged(
    "a closed manager leaves its connection open",
    "a manager that was closed leaves no timer, no backend and no lease",
    Link.prototype,
    "close",
    () => async () => undefined,
  ),
  sabotaged(
    "a closed manager leaves its timers",
    "nor does one that was closed while the link was silent",
    DueQueue.prototype,
    "clear",
    () => () => undefined,
  ),
];
