import type { Answer, Ask, Granted } from "../../../src/core/driver.ts";
import { Lock } from "../../../src/drivers/memory/lock.ts";
import { Queue } from "../../../src/drivers/memory/queue.ts";
import {
  asking,
  type BrokenDriver,
  releasing,
  sabotaged,
  twisted,
  without,
} from "../broken/broken-driver.ts";
import { openSessionDriver } from "../kinds/session-driver.ts";
import { twistedDriver } from "../twisted-driver.ts";

/** Drivers that are right as long as nothing goes wrong, or nearly. */
export const FAULTY_DRIVERS: readonly BrokenDriver[] = [
  twisted(
    "asking again is a new grant",
    "an acquire whose reply was lost becomes the one grant that the store made",
    (inner) => {
      const held = new Set<string>();
      return {
        async attempt(ask, io) {
          if (held.has(ask.grantId)) await inner.release([ask], io);
          const answer = await inner.attempt(ask, io);
          if (answer.kind === "granted") held.add(ask.grantId);
          return answer;
        },
      };
    },
  ),
  twisted(
    "asking again finds the name taken, by itself",
    "an acquire whose reply was lost becomes the one grant that the store made",
    (inner) => {
      const held = new Set<string>();
      return {
        async attempt(ask, io) {
          const grantId = held.has(ask.grantId) ? `${ask.grantId.slice(1)}x` : ask.grantId;
          const answer = await inner.attempt({ ...ask, grantId }, io);
          if (answer.kind === "granted") held.add(ask.grantId);
          return answer;
        },
      };
    },
  ),
  twisted(
    "asking again does not restart the ttl",
    "a waiter that asked again half a ttl after the grant believes no longer either",
    (inner, { clock }) => {
      const granted = new Map<string, { readonly answer: Granted; readonly until: number }>();
      return {
        async attempt(ask: Ask, io): Promise<Answer> {
          const known = granted.get(ask.grantId);
          if (known !== undefined && clock.mono() < known.until) return known.answer;
          const answer = await inner.attempt(ask, io);
          if (answer.kind === "granted")
            granted.set(ask.grantId, { answer, until: clock.mono() + ask.ttlMs });
          return answer;
        },
      };
    },
  ),
  releasing(
    "a tombstone is not kept",
    "an ask that arrives after its grant was released grants nothing",
    (ref) => without(ref, "refuseLateMs"),
  ),
  releasing(
    "a tombstone of an ask that never arrived is not kept",
    "an ask that arrives after its acquire was aborted grants nothing",
    (ref) => without(ref, "refuseLateMs"),
  ),
  twisted(
    "a renewal makes the record again",
    "a renewal that arrives after the release brings nothing back",
    (inner) => ({
      async renew(refs, io) {
        const renewals = await inner.renew(refs, io);
        for (const [at, ref] of refs.entries())
          if (renewals[at]?.kind === "gone")
            await inner.attempt({ ...ref, permits: 1, holder: "", tokens: 1, join: "no" }, io);
        return renewals;
      },
    }),
  ),
  twisted(
    "a lease ends a fifth of its ttl too early",
    "a holder whose link is silent knows that it lost before the next one gets in",
    (inner) => ({
      attempt: async (ask, io) => {
        const answer = await inner.attempt({ ...ask, ttlMs: ask.ttlMs * 0.8 }, io);
        return answer.kind === "granted" ? { ...answer, ttlMs: ask.ttlMs } : answer;
      },
      renew: async (refs, io) =>
        (
          await inner.renew(
            refs.map((ref) => ({ ...ref, ttlMs: ref.ttlMs * 0.8 })),
            io,
          )
        ).map((renewal, at) =>
          renewal.kind === "renewed"
            ? { ...renewal, ttlMs: refs[at]?.ttlMs ?? renewal.ttlMs }
            : renewal,
        ),
    }),
  ),
  sabotaged(
    "an offer to a dead waiter never lapses",
    "an offer to a dead waiter lapses, and the next one gets in",
    Queue.prototype,
    "lapse",
    () => () => undefined,
  ),
  sabotaged(
    "whoever is far back waits for all the offers before its own",
    "many may die in line: whoever lives behind them asks at the end of each offer",
    Lock.prototype,
    "askAgainMs",
    () => (freeInMs, rank, ttlMs) => freeInMs + rank * Math.min(ttlMs, 3000),
  ),
  twisted(
    "wake-ups only: nobody is told when to ask again",
    "a waiter that hears no wake-up gets in by its own polls",
    (inner) => ({
      async attempt(ask, io) {
        const answer = await inner.attempt(ask, io);
        return answer.kind === "busy"
          ? { ...answer, askAgainMs: Infinity, keepEntryMs: Infinity }
          : answer;
      },
    }),
  ),
  {
    fault: "leases end by the asker's wall clock",
    caughtBy: "a waiter whose wall clock jumps gets in no earlier, and waits as long as it said",
    make: () =>
      twistedDriver(
        () => ({}),
        (context) => {
          const { clock } = context;
          const wall = Object.assign(Object.create(clock) as typeof clock, {
            mono: () => clock.wall(),
            wall: () => clock.wall(),
            boot: () => clock.boot(),
            timer: (ms: number, fn: () => void, ref?: boolean) => clock.timer(ms, fn, ref),
          });
          return { ...context, clock: wall };
        },
      ),
  },
  twisted(
    "a revoked holder is told that all is well",
    "a holder learns that it was revoked by its next renewal, and hits nobody after",
    (inner) => ({
      renew: async (refs, io) =>
        (await inner.renew(refs, io)).map((renewal, at) =>
          renewal.kind === "gone" ? { kind: "renewed", ttlMs: refs[at]?.ttlMs ?? 0 } : renewal,
        ),
    }),
  ),
  twisted(
    "a revocation frees whoever holds the name",
    "a revocation that arrives late frees no other grant",
    (inner) => ({
      async revoke(order, io) {
        const { holders } = await inner.inspect(order.name, io);
        return inner.revoke({ ...order, grantId: holders[0]?.grantId ?? order.grantId }, io);
      },
    }),
  ),
  twisted(
    "a release frees whoever holds the name",
    "a release that arrives late frees nobody else's lease",
    (inner) => ({
      async release(refs, io) {
        for (const ref of refs)
          for (const { grantId } of (await inner.inspect(ref.name, io)).holders)
            await inner.release([{ ...ref, grantId }], io);
        return refs.map(() => ({ kind: "released" }));
      },
    }),
  ),
  twisted(
    "a waiter's good-bye is ignored",
    "a waiter that timed out never becomes a holder",
    (inner) => ({
      async release(refs, io) {
        const answers = [];
        for (const ref of refs) {
          const { waiters } = await inner.inspect(ref.name, io);
          const queues = waiters.some(({ grantId }) => grantId === ref.grantId);
          answers.push(
            queues
              ? ({ kind: "released" } as const)
              : ((await inner.release([ref], io))[0] ?? { kind: "released" as const }),
          );
        }
        return answers;
      },
    }),
  ),
  asking(
    "an exclusive ask gets a shared lease",
    "a silence that ends before the deadline costs no lease",
    () => ({ mode: "shared" }),
  ),
  {
    fault: "a killed session leaves its leases",
    caughtBy: "a holder whose session was killed is told, and the next one gets in",
    make: () => openSessionDriver().driver,
  },
];
