import type { Ask, Backend, Driver, DriverContext } from "../../../src/core/driver.ts";
import type { OpenedDriver } from "../../../src/testing/index.ts";
import { twistedDriver } from "../twisted-driver.ts";

const FOR_EVER_MS = 1e12;

/** A store whose leases and entries live as long as the session of their backend does, and end with it. */
export function openSessionDriver(): OpenedDriver {
  const ends = new Map<Backend, () => Promise<void>>();
  const memory = twistedDriver((inner) => ({
    async attempt(ask, io) {
      const answer = await inner.attempt({ ...ask, ttlMs: FOR_EVER_MS }, io);
      if (answer.kind !== "busy") return answer;
      // Leases have no end that could be waited for: whoever hears no wake-up asks again once a ttl.
      const askAgainMs = Math.min(answer.askAgainMs, ask.ttlMs);
      return { ...answer, askAgainMs, keepEntryMs: Number.POSITIVE_INFINITY };
    },
    async inspect(name, io) {
      const record = await inner.inspect(name, io);
      const holders = record.holders.map((holder) => ({ ...holder, remainingMs: null }));
      return { ...record, holders };
    },
    renew: async (refs, io) =>
      inner.renew(
        refs.map((ref) => ({ ...ref, ttlMs: FOR_EVER_MS })),
        io,
      ),
  }));
  const driver: Driver = {
    ...memory,
    liveness: "session",
    clock: "none",
    async open(context: DriverContext): Promise<Backend> {
      const inner = await memory.open(context);
      const asks = new Map<string, Ask>();
      const io = { timeoutMs: 1000, signal: new AbortController().signal };
      const end = async (): Promise<void> => {
        for (const { name, grantId, ...ask } of asks.values()) {
          const revoked = await inner.revoke({ name, grantId, now: false }, io);
          if (revoked.kind === "gone") await inner.release([{ ...ask, name, grantId }], io);
        }
        asks.clear();
      };
      const backend: Backend = {
        ...inner,
        async attempt(ask, callersIo) {
          asks.set(ask.grantId, ask);
          return inner.attempt(ask, callersIo);
        },
        async close() {
          await end();
          await inner.close();
        },
      };
      ends.set(backend, end);
      return backend;
    },
  };
  return {
    driver,
    close: async () => undefined,
    endSession: async (backend) => ends.get(backend)?.(),
  };
}
