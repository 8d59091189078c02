import type { Backend, Driver, DriverContext } from "../../../src/core/driver.ts";
import { memoryDriver } from "../../../src/drivers/memory/index.ts";
import { twistedDriver } from "../twisted-driver.ts";
import { asking, type BrokenDriver, twisted } from "./broken-driver.ts";

/** Faults in who may hold a name. */
export const EXCLUSIVE_FAULTS: readonly BrokenDriver[] = [
  asking("names lose their case", "keeps names apart that look alike, up to 512 bytes", (ask) => ({
    name: ask.name.toLowerCase(),
  })),
  asking("every ask is a new grant", "a repeated ask is the same grant", ({ grantId }) => ({
    grantId: `${grantId}${Math.random()}`,
  })),
  twisted(
    "everybody is granted",
    "grants a free name to exactly one holder, however many ask at once",
    (inner) => ({
      async attempt(ask, io) {
        const answer = await inner.attempt(ask, io);
        if (answer.kind !== "busy") return answer;
        return inner.attempt({ ...ask, name: `${ask.name} ${ask.grantId}` }, io);
      },
    }),
  ),
  asking(
    "an ask that does not join is queued",
    "a refused ask that does not join leaves nothing behind",
    ({ join }) => ({ join: join === "no" ? "yes" : join }),
  ),
  asking(
    "the holder's text is cut",
    "carries 5 KiB about the holder, whatever characters it has",
    (ask) => ({
      holder: ask.holder.slice(0, 1024),
    }),
  ),
  asking(
    "a lease lasts a thousand times its ttl",
    "a lease that is not renewed ends after its ttl, and not before",
    (ask) => ({
      ttlMs: ask.ttlMs * 1000,
    }),
  ),
  asking(
    "a lease lasts half its ttl",
    "a lease that is not renewed ends after its ttl, and not before",
    (ask) => ({
      ttlMs: ask.ttlMs / 2,
    }),
  ),
  {
    fault: "another kind of waiting than declared",
    caughtBy: "declares what its fixture says",
    make: () => ({ ...memoryDriver(), waiting: "poll" }),
  },
  {
    fault: "one namespace for all",
    caughtBy: "one name in two namespaces is two locks",
    make: () =>
      twistedDriver(
        () => ({}),
        (context) => ({ ...context, namespace: "same" }),
      ),
  },
  {
    fault: "namespace and name are just put together",
    caughtBy: "namespace and name cannot be put together in two ways",
    make: (): Driver => {
      const driver = memoryDriver();
      return {
        ...driver,
        async open(context: DriverContext): Promise<Backend> {
          const inner = await driver.open({ ...context, namespace: "same" });
          const full = <T extends { readonly name: string }>(what: T): T => ({
            ...what,
            name: `${context.namespace}/${what.name}`,
          });
          return {
            ...inner,
            attempt: async (ask, io) => inner.attempt(full(ask), io),
            renew: async (refs, io) => inner.renew(refs.map(full), io),
            release: async (refs, io) => inner.release(refs.map(full), io),
            revoke: async (order, io) => inner.revoke(full(order), io),
            inspect: async (name, io) => inner.inspect(full({ name }).name, io),
            list: async (page, io) => inner.list(page, io),
            probe: async (io) => inner.probe(io),
            close: async () => inner.close(),
          };
        },
      };
    },
  },
];
