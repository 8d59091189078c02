import type { Declaration } from "./capabilities.ts";
import { type Bounds, parseDuration, show, showMs, YEAR_MS } from "./duration.ts";
import { InvalidArgumentError, UnsupportedError } from "./errors.ts";
import { MAX_TOKEN } from "./fencing-token.ts";
import type { Holder } from "./holder.ts";
import { utf8Bytes } from "./lock-name.ts";

export const TTL: Bounds = { min: 50, max: YEAR_MS };
export const DELAY: Bounds = { min: 0, max: 60_000 };
export const WAIT: Bounds = { min: 0, max: YEAR_MS };
export const SHORT: Bounds = { min: 1, max: 3_600_000 };

/** One of a few words. @throws InvalidArgumentError */
export function oneOf<T extends string>(option: string, value: unknown, words: readonly T[]): T {
  if (words.includes(value as T)) return value as T;
  throw new InvalidArgumentError(
    `Expected \`${option}\` to be ${words.map((word) => `"${word}"`).join(" or ")}, got ${show(value)}.`,
  );
}

/** @throws InvalidArgumentError */
export function flag(option: string, value: unknown, otherwise: boolean): boolean {
  if (value === undefined) return otherwise;
  if (typeof value === "boolean") return value;
  throw new InvalidArgumentError(`Expected \`${option}\` to be true or false, got ${show(value)}.`);
}

/** Milliseconds of `"forever"` or of a duration. */
export function parseWait(value: unknown): number {
  return value === "forever" ? Infinity : parseDuration("wait", value, WAIT);
}

/** A ttl that this driver keeps, rounded up to its steps. @throws InvalidArgumentError below its least */
export function parseTtl(value: unknown, declared: Declaration): number {
  const ms = parseDuration("ttl", value, TTL);
  const { minMs, stepMs } = declared.ttl;
  if (ms < minMs)
    throw new InvalidArgumentError(
      `Expected \`ttl\` to be at least ${showMs(minMs)} on this driver, got ${show(value)}.`,
    );
  return Math.ceil(ms / stepMs) * stepMs;
}

/** Who holds a lease. @throws InvalidArgumentError */
export function holderOf(
  host: { name: string; pid: number },
  label: unknown,
  metadata: unknown,
): Holder {
  if (typeof label !== "string" || utf8Bytes(label) > 256)
    throw new InvalidArgumentError(
      `Expected \`label\` to be a string of at most 256 bytes, got ${show(label)}.`,
    );
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
    throw new InvalidArgumentError(
      `Expected \`metadata\` to be an object of strings, got ${show(metadata)}.`,
    );
  for (const [key, value] of Object.entries(metadata))
    if (typeof value !== "string")
      throw new InvalidArgumentError(
        `Expected \`metadata.${key}\` to be a string, got ${show(value)}.`,
      );
  const text = JSON.stringify(metadata);
  if (utf8Bytes(text) > 4096)
    throw new InvalidArgumentError("Expected `metadata` to be at most 4 KiB as JSON.");
  return {
    label,
    host: host.name,
    pid: host.pid,
    metadata: JSON.parse(text) as Record<string, string>,
  };
}

/** The number of permits of a semaphore. @throws InvalidArgumentError */
export function parsePermits(permits: unknown): number {
  if (
    typeof permits !== "number" ||
    !Number.isInteger(permits) ||
    permits < 1 ||
    permits > 1_000_000
  )
    throw new InvalidArgumentError(
      `Expected \`permits\` to be a whole number from 1 to 1,000,000, got ${show(permits)}.`,
    );
  return permits;
}

/** @throws InvalidArgumentError */
export function checkSignal(signal: unknown): void {
  if (signal === undefined) return;
  if (
    typeof signal === "object" &&
    signal !== null &&
    "aborted" in signal &&
    "addEventListener" in signal
  )
    return;
  throw new InvalidArgumentError(`Expected \`signal\` to be an AbortSignal, got ${show(signal)}.`);
}

/** The token to exceed. @throws InvalidArgumentError, UnsupportedError */
export function checkAbove(above: unknown, declared: Declaration): bigint | undefined {
  if (above === undefined) return undefined;
  if (typeof above !== "bigint" || above < 0n || above >= MAX_TOKEN)
    throw new InvalidArgumentError(
      `Expected \`above\` to be a bigint from 0 to 2^62 - 2, got ${show(above)}.`,
    );
  if (declared.fencing === "none")
    throw new UnsupportedError("This driver mints no tokens, so none can exceed `above`.");
  return above;
}
