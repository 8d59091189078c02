import { Lock } from "../../../src/drivers/memory/lock.ts";
import { Queue } from "../../../src/drivers/memory/queue.ts";
import { twistedDriver } from "../twisted-driver.ts";
import { asking, type BrokenDriver, holdersOf, sabotaged, twisted } from "./broken-driver.ts";

/** Faults in waiting. */
export const QUEUE_FAULTS: readonly BrokenDriver[] = [
  sabotaged(
    "the youngest waiter is first",
    "lets waiters in by the order of their arrival",
    Queue.prototype,
    "values",
    (original) =>
      function (this: Queue) {
        return [...original.call(this)].reverse().values();
      },
  ),
  sabotaged(
    "asking again loses the place",
    "asking again does not lose the place",
    Queue.prototype,
    "heard",
    (original) =>
      function (this: Queue, waiter, now) {
        if (waiter.offerUntil < 0) {
          this.remove(waiter);
          this.add(waiter, now);
        }
        return original.call(this, waiter, now);
      },
  ),
  sabotaged(
    "whoever asks first gets a free lock",
    "nobody who comes later overtakes a live waiter, joining or not",
    Lock.prototype,
    "makeOffers",
    (original) =>
      function (this: Lock, now, asking, wakes) {
        if (asking === null || this.queue?.get(asking) === undefined) return true;
        return original.call(this, now, asking, wakes);
      },
  ),
  sabotaged(
    "readers pass a writer that queues",
    "a reader does not overtake a writer that queues, though readers are in",
    Lock.prototype,
    "makeOffers",
    (original) =>
      function (this: Lock, now, asking, wakes) {
        original.call(this, now, asking, wakes);
        return true;
      },
  ),
  sabotaged(
    "readers come in one by one",
    "readers that queue one behind the other come in together",
    Lock.prototype,
    "hasRoom",
    (original) =>
      function (this: Lock, mode) {
        if (mode === "shared" && (this.queue?.size ?? 0) > 0) return this.mode === null;
        return original.call(this, mode);
      },
  ),
  sabotaged(
    "an offer never lapses",
    "a head that does not come is passed over, without its lock-delay",
    Queue.prototype,
    "lapse",
    () => () => undefined,
  ),
  sabotaged(
    "whoever is far back waits for all the offers before its own",
    "while an offer runs, even the last one in line is told to come back soon after it",
    Lock.prototype,
    "askAgainMs",
    () => (freeInMs, rank, ttlMs) => freeInMs + rank * Math.min(ttlMs, 3000),
  ),
  sabotaged(
    "an offer lapses at once",
    "an offer keeps others out until its waiter had time to come",
    Queue.prototype,
    "offer",
    (original) =>
      function (this: Queue, waiter, now) {
        original.call(this, waiter, now - waiter.ttlMs);
      },
  ),
  sabotaged(
    "a silent waiter counts for ever",
    "a waiter that was silent too long is passed over, and gets no second entry",
    Queue.prototype,
    "heard",
    (original) =>
      function (this: Queue, waiter, now) {
        const place = original.call(this, waiter, now);
        waiter.aliveUntil = Number.POSITIVE_INFINITY;
        return place;
      },
  ),
  sabotaged(
    "a waiter that was silent goes to the end",
    "a waiter that was silent and comes back stands where it stood, or is told to start anew",
    Queue.prototype,
    "heard",
    (original) =>
      function (this: Queue, waiter, now) {
        if (waiter.aliveUntil > 0 && waiter.aliveUntil <= now) {
          this.remove(waiter);
          this.add(waiter, now);
        }
        return original.call(this, waiter, now);
      },
  ),
  sabotaged(
    "a waiter that leaves keeps its offer",
    "a waiter that leaves when its turn has come passes it on",
    Lock.prototype,
    "leave",
    () => () => undefined,
  ),
  asking(
    "an entry that is gone is made again",
    "an entry that is gone is not made again under the same grant id",
    ({ join }) => ({ join: join === "kept" ? "yes" : join }),
  ),
  {
    fault: "nobody is woken",
    caughtBy: "a release wakes the oldest waiter, and no other",
    make: () =>
      twistedDriver(
        () => ({}),
        (context) => ({ ...context, notify: () => undefined }),
      ),
  },
  (() => {
    const fault: BrokenDriver = {
      fault: "everybody is woken",
      caughtBy: "a release wakes the oldest waiter, and no other",
      make: () => {
        const listeners: ((grantId: string) => void)[] = [];
        return twistedDriver((inner, context) => {
          listeners.push((grantId) => {
            context.notify({ kind: "wake", grantId });
          });
          return {
            async release(refs, io) {
              const answers = await inner.release(refs, io);
              for (const { name } of refs)
                for (const { grantId } of (await inner.inspect(name, io)).waiters)
                  for (const listener of listeners) listener(grantId);
              return answers;
            },
          };
        });
      },
    };
    return fault;
  })(),
  twisted(
    "a waiter's ttl runs from when it joined",
    "a waiter's ttl runs from when it came in, however long it waited",
    (inner, { clock }) => {
      const joined = new Map<string, number>();
      return {
        async attempt(ask, io) {
          const since = joined.get(ask.grantId) ?? clock.mono();
          joined.set(ask.grantId, since);
          return inner.attempt({ ...ask, ttlMs: ask.ttlMs - (clock.mono() - since) }, io);
        },
      };
    },
  ),
  twisted(
    "the renewal of an entry is refused",
    "a renewed entry stays in the queue and does not become a lease",
    (inner) => ({
      async renew(refs, io) {
        const answers = await inner.renew(refs, io);
        const checked = [];
        for (const [i, ref] of refs.entries()) {
          const held = await holdersOf(inner, ref.name, io);
          const own = held.some(({ grantId }) => grantId === ref.grantId);
          checked.push(own ? answers[i]! : ({ kind: "gone", reason: "expired" } as const));
        }
        return checked;
      },
    }),
  ),
];
