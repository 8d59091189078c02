import { randomFillSync } from "node:crypto";
import type { Random } from "../core/random.ts";

const POOL_BYTES = 4096;

/**
 * The system's random numbers. Bytes come from a pool, since small reads are dear; `forget` drops the pool, so that a
 * cloned virtual machine does not repeat what its twin drew from it.
 */
export const systemRandom: Random = (() => {
  const pool = new Uint8Array(POOL_BYTES);
  let used = POOL_BYTES;
  return {
    bytes(n: number): Uint8Array {
      if (n > POOL_BYTES) return randomFillSync(new Uint8Array(n));
      if (used + n > POOL_BYTES) {
        randomFillSync(pool);
        used = 0;
      }
      used += n;
      return pool.slice(used - n, used);
    },
    unit: Math.random,
    forget(): void {
      used = POOL_BYTES;
    },
  };
})();
