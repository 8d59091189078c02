import type { Ask } from "../../../src/core/driver.ts";
import { Store } from "../../../src/drivers/memory/store.ts";
import {
  asking,
  type BrokenDriver,
  releasing,
  sabotaged,
  twisted,
  without,
} from "./broken-driver.ts";

/** Faults in fencing tokens and in what a successor is told. */
export const TOKENS_FAULTS: readonly BrokenDriver[] = [
  twisted("a token repeats", "tokens rise with every grant, whoever gets it", (inner) => {
    const first = new Map<string, bigint>();
    return {
      async attempt(ask, io) {
        const answer = await inner.attempt(ask, io);
        if (answer.kind !== "granted" || answer.tokens === null) return answer;
        const token = first.get(ask.name) ?? answer.tokens.first;
        first.set(ask.name, token);
        return { ...answer, tokens: { ...answer.tokens, first: token } };
      },
    };
  }),
  sabotaged(
    "tokens follow the wall clock alone",
    "tokens rise though the wall clock was set back",
    Store.prototype,
    "mint",
    () =>
      function (this: Store, lock, count, _above, wall) {
        lock.top = BigInt(wall * 1000) + BigInt(count);
        return lock.top;
      },
  ),
  sabotaged(
    "the last token of a dropped name is forgotten",
    "tokens rise though the name was idle while many others came and went",
    Store.prototype,
    "raise",
    () => () => undefined,
  ),
  twisted("`above` is ignored", "a token exceeds `above`, and so do those after it", (inner) => ({
    attempt: async (ask, io) => inner.attempt(without(ask, "above"), io),
  })),
  releasing("`raiseTo` is ignored", "a release can raise the counter in its own step", (ref) =>
    without(ref, "raiseTo"),
  ),
  twisted(
    "anybody can raise the counter",
    "a release by somebody who does not hold it raises nothing",
    (inner) => ({
      async release(refs, io) {
        const answers = await inner.release(refs, io);
        for (const ref of refs) {
          if (ref.raiseTo === undefined) continue;
          const spare: Ask = {
            ...ref,
            name: "a name for raising",
            permits: 1,
            holder: "",
            tokens: 1,
            join: "no",
            above: ref.raiseTo,
          };
          await inner.attempt({ ...spare, grantId: "spare" }, io);
          await inner.release([{ ...spare, grantId: "spare", raiseTo: ref.raiseTo }], io);
        }
        return answers;
      },
    }),
  ),
  twisted(
    "the next grant's token lies in the block",
    "every later grant's tokens are above the whole block, after a release",
    (inner) => ({
      async attempt(ask, io) {
        const answer = await inner.attempt({ ...ask, tokens: 1 }, io);
        if (answer.kind !== "granted" || answer.tokens === null) return answer;
        return { ...answer, tokens: { ...answer.tokens, count: ask.tokens } };
      },
    }),
  ),
  asking("blocks have one token", "gives as many tokens as were asked for", () => ({ tokens: 1 })),
  twisted(
    "takenOver is always false",
    "says that the previous holder never released, as often as it is asked",
    (inner) => ({
      async attempt(ask, io) {
        const answer = await inner.attempt(ask, io);
        return answer.kind === "granted" ? { ...answer, takenOver: false } : answer;
      },
    }),
  ),
  twisted(
    "takenOver after every grant",
    "a waiter that gets the lock from a release takes nothing over",
    (inner) => ({
      async attempt(ask, io) {
        const answer = await inner.attempt(ask, io);
        return answer.kind === "granted"
          ? { ...answer, takenOver: answer.previousToken !== null }
          : answer;
      },
    }),
  ),
];
