/* The nightly report, once across all replicas of a service: a lock whose record outlives its holder, named by the date. */
import { createLockManager, type Driver } from "../src/index.ts";

/**
 * Writes the day's report unless another replica did or is at it. A replica that dies at it is replaced after the ttl;
 * the report is written under its date, so that a second attempt overwrites the first: nothing is sent twice.
 */
export async function nightlyReport(
  driver: Driver,
  day: string,
  write: (day: string) => Promise<void>,
): Promise<"written" | "somebody else's"> {
  const locks = createLockManager(driver, { ttl: "2s" });
  try {
    const { ran } = await locks.once(
      `report/${day}`,
      { keep: "25h", retryOnError: true },
      async () => write(day),
    );
    return ran ? "written" : "somebody else's";
  } finally {
    await locks.close();
  }
}
