/* Stock in Redis, guarded: a transaction, a value, and a script. */
import { Redis } from "ioredis";
import { memoryDriver } from "../src/drivers/memory/index.ts";
import { redisGuard, redisStore } from "../src/guards/redis/index.ts";
import { createLockManager } from "../src/index.ts";

export async function main(
  url: string,
): Promise<{ readonly hammers: unknown; readonly key: string }> {
  const client = new Redis(url);
  const locks = createLockManager(memoryDriver());
  const guard = redisGuard();
  // Everything under one hash tag: one script reaches it, on a Cluster too.
  const store = redisStore(client, "shop");

  await locks.request("stock", async (lease) => {
    // Claim, reads, and all writes in one step at the end.
    await guard.run(store, "stock", lease, async (tx) => {
      const hammers = Number((await tx.hget("stock", "hammer")) ?? "10");
      tx.hset("stock", { hammer: String(hammers - 1) });
    });
  });

  const hammers = await locks.request("stock", async (lease) => {
    // A long job claims before it reads, and each write is verified where it is applied.
    await guard.claim(store, "stock", lease);
    await guard.set(store, "stock", lease, "inventory", "running", { ttlMs: 60_000 });
    return guard.eval(store, "stock", lease, {
      script: "return redis.call('HINCRBY', KEYS[1], 'hammer', ARGV[1])",
      keys: ["stock"],
      args: ["-2"],
    });
  });

  await locks.close();
  client.disconnect();
  return { hammers, key: store.key("stock") };
}
