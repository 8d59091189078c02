import type { Ask, Backend, GrantRef } from "../../../src/core/driver.ts";
import { Grant } from "../../../src/drivers/memory/grant.ts";
import { twistedDriver } from "../twisted-driver.ts";
import {
  asking,
  type BrokenDriver,
  holdersOf,
  releasing,
  sabotaged,
  twisted,
  without,
} from "./broken-driver.ts";

/** Faults in what happens to a lease after it was granted. */
export const KEEPING_FAULTS: readonly BrokenDriver[] = [
  twisted(
    "a renewal makes a lease",
    "a renewal never makes a lease: an unknown grant id is gone",
    (inner) => ({
      async renew(refs, io) {
        const answers = [...(await inner.renew(refs, io))];
        for (const [i, ref] of refs.entries()) {
          if (answers[i]?.kind === "renewed") continue;
          const ask = { ...ref, permits: 1, holder: "", tokens: 1, join: "no" } as const;
          if ((await inner.attempt(ask, io)).kind === "granted")
            answers[i] = { kind: "renewed", ttlMs: ref.ttlMs };
        }
        return answers;
      },
    }),
  ),
  twisted("a renewal revives what it had known", "a lease that ended is not revived", (inner) => {
    const known = new Map<string, Ask>();
    return {
      async attempt(ask, io) {
        const answer = await inner.attempt(ask, io);
        if (answer.kind === "granted") known.set(ask.grantId, ask);
        return answer;
      },
      async renew(refs, io) {
        for (const { grantId } of refs) {
          const ask = known.get(grantId);
          if (ask !== undefined) await inner.attempt({ ...ask, join: "no" }, io);
        }
        return inner.renew(refs, io);
      },
    };
  }),
  twisted("a renewal mints a new token", "a renewal keeps the tokens", (inner) => {
    const known = new Map<string, Ask>();
    return {
      async attempt(ask, io) {
        known.set(ask.grantId, ask);
        return inner.attempt(ask, io);
      },
      async renew(refs, io) {
        for (const ref of refs) {
          const ask = known.get(ref.grantId);
          const held = await holdersOf(inner, ref.name, io);
          if (ask === undefined || !held.some(({ grantId }) => grantId === ref.grantId)) continue;
          await inner.release([ref], io);
          await inner.attempt(ask, io);
        }
        return inner.renew(refs, io);
      },
    };
  }),
  twisted(
    "a renewal is only said to have happened",
    "a renewed lease outlives its first ttl",
    (inner) => ({
      async renew(refs, io) {
        const answers = [];
        for (const ref of refs) {
          const held = await holdersOf(inner, ref.name, io);
          answers.push(
            held.some(({ grantId }) => grantId === ref.grantId)
              ? ({ kind: "renewed", ttlMs: ref.ttlMs } as const)
              : ({ kind: "gone", reason: "expired" } as const),
          );
        }
        return answers;
      },
    }),
  ),
  twisted("a repeated ask does not renew", "a repeated ask renews as well", (inner) => {
    const granted = new Map<string, Awaited<ReturnType<Backend["attempt"]>>>();
    return {
      async attempt(ask, io) {
        const held = await holdersOf(inner, ask.name, io);
        const known = granted.get(ask.grantId);
        if (known !== undefined && held.some(({ grantId }) => grantId === ask.grantId))
          return known;
        const answer = await inner.attempt(ask, io);
        if (answer.kind === "granted") granted.set(ask.grantId, answer);
        return answer;
      },
    };
  }),
  sabotaged(
    "a renewal sets the ttl, whatever the lease had left",
    "a renewal with a shorter ttl does not end a lease sooner",
    Grant.prototype,
    "restart",
    () =>
      function (this: Grant, now, terms) {
        this.expiresAt = now + terms.ttlMs;
        this.ttlMs = terms.ttlMs;
        this.lockDelayMs = terms.lockDelayMs;
      },
  ),
  {
    ...sabotaged(
      "a repeated ask sets the ttl, whatever was renewed since",
      "a late repeated ask does not end a lease that was renewed for longer",
      Grant.prototype,
      "restart",
      () =>
        function (this: Grant, now, terms) {
          this.expiresAt = now + terms.ttlMs;
          this.ttlMs = terms.ttlMs;
          this.lockDelayMs = terms.lockDelayMs;
        },
    ),
    make: () =>
      twistedDriver((inner) => ({
        async attempt(ask, io) {
          const answer = await inner.attempt(ask, io);
          if (answer.kind === "granted") await inner.renew([ask], io);
          return answer;
        },
      })),
  },
  twisted(
    "a batch is answered backwards",
    "a batch tells about each lease, in the order asked",
    (inner) => ({
      async renew(refs, io) {
        const answers = await inner.renew(refs, io);
        return answers[0]?.kind === "gone" || answers.length < 2
          ? answers
          : [...answers.slice(1), answers[0]!];
      },
    }),
  ),
  twisted(
    "a release frees whoever holds it",
    "a release with another grant id frees nothing",
    (inner) => ({
      async release(refs, io) {
        const hit: GrantRef[] = [];
        for (const ref of refs) {
          const [holder] = await holdersOf(inner, ref.name, io);
          hit.push({ ...ref, grantId: holder?.grantId ?? ref.grantId });
        }
        return inner.release(hit, io);
      },
    }),
  ),
  twisted(
    "a reader takes the others with it",
    "a reader that leaves twice takes nobody else with it",
    (inner) => ({
      async release(refs, io) {
        const answers = await inner.release(refs, io);
        for (const ref of refs)
          if (ref.mode === "shared")
            for (const { grantId } of await holdersOf(inner, ref.name, io))
              await inner.release([{ ...ref, grantId }], io);
        return answers;
      },
    }),
  ),
  releasing(
    "late asks are not refused",
    "an ask that arrives after its release is refused and leaves nothing behind",
    (ref) => without(ref, "refuseLateMs"),
  ),
  twisted(
    "late asks are refused only after a grant",
    "an ask that was overtaken by its own release is refused",
    (inner) => ({
      async release(refs, io) {
        const answers = [];
        for (const { refuseLateMs, ...ref } of refs) {
          const held = await holdersOf(inner, ref.name, io);
          const own = held.some(({ grantId }) => grantId === ref.grantId);
          const late = own && refuseLateMs !== undefined ? { refuseLateMs } : {};
          answers.push(...(await inner.release([{ ...ref, ...late }], io)));
        }
        return answers;
      },
    }),
  ),
  twisted("revoke frees whoever holds it", "never hits the next holder", (inner) => ({
    async revoke(order, io) {
      const [holder] = await holdersOf(inner, order.name, io);
      return inner.revoke({ ...order, grantId: holder?.grantId ?? order.grantId }, io);
    },
  })),
  twisted("revoke is always now", "waits for the lock-delay, unless it shall be now", (inner) => ({
    revoke: async (order, io) => inner.revoke({ ...order, now: true }, io),
  })),
  twisted(
    "revoke is a release",
    "frees the grant, and its holder is told at the next renewal",
    (inner) => ({
      async revoke({ name, grantId }, io) {
        const ref = { name, grantId, mode: "exclusive", ttlMs: 1000, lockDelayMs: 0 } as const;
        const [answer] = await inner.release([ref], io);
        return answer ?? { kind: "gone", reason: "expired" };
      },
    }),
  ),
  twisted("a release is followed by the lock-delay", "never follows a release", (inner) => ({
    async release(refs, io) {
      const answers = [];
      for (const { name, grantId } of refs)
        answers.push(await inner.revoke({ name, grantId, now: false }, io));
      return answers;
    },
  })),
  asking(
    "lock-delay is ignored",
    "keeps others out for its length after a holder vanished, and says why",
    () => ({
      lockDelayMs: 0,
    }),
  ),
];
