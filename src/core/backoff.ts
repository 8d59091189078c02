import type { Random } from "./random.ts";

/**
 * How long to pause before the next try: exponential from `firstMs` to at most `maxMs`, with full jitter, so that many
 * clients that failed together do not come back together. Never below 1 ms.
 */
export function backoffMs(random: Random, tries: number, firstMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(tries, 20));
  return Math.max(1, random.unit() * ceiling);
}
