/* A counter in this process, guarded. The second holder takes over while the first one still believes. */

import { memoryDriver } from "../src/drivers/memory/index.ts";
import { memoryGuard, memoryStore } from "../src/guards/memory/index.ts";
import { createLockManager, StaleTokenError } from "../src/index.ts";

export async function main(): Promise<{ readonly seats: number; readonly refused: boolean }> {
  const locks = createLockManager(memoryDriver());
  const guard = memoryGuard();
  const store = memoryStore<number>();

  // Claim, read and write in one step: nothing can come between.
  await locks.request("show/12", async (lease) => {
    await guard.run(store, "show/12", lease, (tx) => {
      tx.set("seats", 100);
    });
  });

  // A long job claims first, then reads, and verifies in the transaction of each write.
  const slow = await locks.acquire("show/12");
  await guard.claim(store, "show/12", slow);
  const seen = store.get("seats") ?? 0;

  // An operator frees the lock while the job computes; the next holder claims and sells two seats.
  await locks.revoke("show/12", { reason: "it hangs", now: true });
  await locks.request("show/12", async (lease) => {
    await guard.run(store, "show/12", lease, (tx) => {
      tx.set("seats", (tx.get("seats") ?? 0) - 2);
    });
  });

  let refused = false;
  try {
    store.transaction((tx) => {
      // The slow job's process does not know yet: its credential here is the pair that it claimed with.
      const { token, grantId, scope } = slow;
      guard.verify(tx, "show/12", { token, grantId, scope, trust: true });
      tx.set("seats", seen - 1);
    });
  } catch (error) {
    if (!(error instanceof StaleTokenError)) throw error;
    refused = true;
  }
  await locks.close();
  return { seats: store.get("seats") ?? 0, refused };
}
