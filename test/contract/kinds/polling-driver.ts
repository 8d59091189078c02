import type { Driver } from "../../../src/core/driver.ts";
import { twistedDriver } from "../twisted-driver.ts";

/** A store without a queue: whoever is refused leaves nothing behind and asks again. */
export function pollingDriver(claimsToQueue = false): Driver {
  return {
    ...twistedDriver((inner) => ({
      async attempt(ask, io) {
        const answer = await inner.attempt({ ...ask, join: "no" }, io);
        return answer.kind === "busy" && claimsToQueue ? { ...answer, queued: true } : answer;
      },
    })),
    waiting: "poll",
  };
}
