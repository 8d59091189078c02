import { Lock } from "../../../src/drivers/memory/lock.ts";
import { type BrokenDriver, sabotaged, twisted } from "./broken-driver.ts";

/** Faults in semaphores. */
export const PERMITS_FAULTS: readonly BrokenDriver[] = [
  sabotaged(
    "one permit too many",
    "grants as many permits as there are, and not one more",
    Lock.prototype,
    "hasRoom",
    (original) =>
      function (this: Lock, mode) {
        return (
          original.call(this, mode) || (mode === "permits" && this.crowd?.size === this.permits)
        );
      },
  ),
  sabotaged(
    "the last count wins",
    "another count is told the stored one while a permit is held, and changes nothing",
    Lock.prototype,
    "agreeOn",
    () =>
      function (this: Lock, permits) {
        this.permits = permits;
        return true;
      },
  ),
  sabotaged(
    "the first count stays for ever",
    "the count may change once nobody holds a permit",
    Lock.prototype,
    "agreeOn",
    () =>
      function (this: Lock, permits) {
        if (this.permits === 0) this.permits = permits;
        return this.permits === permits;
      },
  ),
  twisted("permits have a token", "permits carry no token", (inner) => ({
    async attempt(ask, io) {
      const answer = await inner.attempt(ask, io);
      return answer.kind === "granted"
        ? { ...answer, tokens: answer.tokens ?? { first: 1n, count: 1 } }
        : answer;
    },
  })),
];
