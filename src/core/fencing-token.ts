import type { Fencing } from "./capabilities.ts";

declare const durability: unique symbol;

/** Fencing that yields a token at all. */
export type Fenced = Exclude<Fencing, "none">;

/**
 * A number that rises with every exclusive grant of a name: 1 to 2^62 - 1.
 * The brand says how durable the counter is; arithmetic gives a plain `bigint`. Not dense: numbers may be skipped.
 */
export type FencingToken<F extends Fenced = Fenced> = bigint & { readonly [durability]: F };

/** The largest token: a bigger one is refused as input, since one forged number would poison a resource for good. */
export const MAX_TOKEN: bigint = 2n ** 62n - 1n;

/** Whether `value` is a token that a driver may have minted. */
export function isToken(value: unknown): value is bigint {
  return typeof value === "bigint" && value >= 1n && value <= MAX_TOKEN;
}

/** Reads a token's decimal form; `null` for anything that is not exactly one (signs, zeros in front, too big). */
export function parseToken(text: unknown): bigint | null {
  if (typeof text !== "string" || !/^[1-9][0-9]{0,18}$/.test(text)) return null;
  const token = BigInt(text);
  return isToken(token) ? token : null;
}
