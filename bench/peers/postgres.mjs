/**
 * The locks that the PostgreSQL drivers are measured against, each over clients of `pg` that it shares with nobody, by its
 * own defaults. A peer is { name, take(key) }: `take` waits for the lock, and resolves to what gives it back.
 */
import { LockFactory } from "@verrou/core";
import { kyselyStore } from "@verrou/core/drivers/kysely";
import advisory from "advisory-lock";

/** @param {string} url @param {any} kysely a database that is connected */
export async function peers(url, kysely) {
  const verrou = new LockFactory(kyselyStore({ connection: kysely }).factory());
  // It makes its table unasked and unawaited: two that do so at once end the process.
  await verrou.createLock("first", 1000).acquire();
  const make = (advisory.default ?? advisory)(url);
  return [
    {
      name: "@verrou/core (kysely)",
      take: async (key) => {
        const own = verrou.createLock(key, 30_000);
        await own.acquire();
        return async () => own.release();
      },
    },
    // It opens a connection for each lock, and closes it after.
    { name: "advisory-lock", take: async (key) => make(key).lock() },
  ];
}
