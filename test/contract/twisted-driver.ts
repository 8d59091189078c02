import type { Backend, Driver, DriverContext } from "../../src/core/driver.ts";
import { type MemoryCapabilities, memoryDriver } from "../../src/drivers/memory/index.ts";

/** Replaces some methods of a backend. */
export type Twist = (inner: Backend, context: DriverContext) => Partial<Backend>;

/** The memory driver with some of its backend's methods replaced, and its context changed on the way in. */
export function twistedDriver(
  twist: Twist,
  lend: (context: DriverContext) => DriverContext = (context) => context,
): Driver<MemoryCapabilities> {
  const memory = memoryDriver();
  return {
    ...memory,
    async open(context: DriverContext): Promise<Backend> {
      const lent = lend(context);
      const inner = await memory.open(lent);
      const plain: Backend = {
        attempt: async (ask, io) => inner.attempt(ask, io),
        renew: async (grants, io) => inner.renew(grants, io),
        release: async (grants, io) => inner.release(grants, io),
        revoke: async (order, io) => inner.revoke(order, io),
        inspect: async (name, io) => inner.inspect(name, io),
        list: async (page, io) => inner.list(page, io),
        probe: async (io) => inner.probe(io),
        close: async () => inner.close(),
      };
      return { ...plain, ...twist(inner, lent) };
    },
  };
}
