import { InvalidArgumentError } from "./errors.ts";

/** A number of milliseconds, or a whole number with a unit: `"250ms"`, `"30s"`, `"5m"`, `"1h"`, `"7d"`. */
export type Duration = number | string;

/** 365 days, the longest duration that any option takes. */
export const YEAR_MS: number = 365 * 24 * 3_600_000;

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The bounds of one option, both inclusive, in milliseconds. */
export interface Bounds {
  readonly min: number;
  readonly max: number;
}

/**
 * Reads a duration as milliseconds.
 * @throws InvalidArgumentError for another type, a fraction with a unit, NaN, or a value outside the bounds
 */
export function parseDuration(option: string, value: unknown, bounds: Bounds): number {
  const ms = typeof value === "string" ? ofText(value) : typeof value === "number" ? value : NaN;
  if (!Number.isFinite(ms) || ms < bounds.min || ms > bounds.max)
    throw new InvalidArgumentError(
      `Expected \`${option}\` to be ${describeBounds(bounds)}, got ${show(value)}.${hint(value)}`,
    );
  return ms;
}

function ofText(text: string): number {
  const [, digits, unit = ""] = /^(\d{1,15})(ms|s|m|h|d)$/.exec(text) ?? [];
  return digits === undefined ? NaN : Number(digits) * (UNITS[unit] ?? NaN);
}

function hint(value: unknown): string {
  if (typeof value !== "string") return "";
  if (/^\d+$/.test(value)) return ` Did you mean "${value}ms" or "${value}s"?`;
  const spaced = /^\s*(\d+)\s*([a-z]+)\s*$/i.exec(value);
  const unit = spaced?.[2]?.toLowerCase() ?? "";
  const short = Object.keys(UNITS).find((known) => unit.startsWith(known)) ?? "";
  return short === "" ? "" : ` Did you mean "${spaced?.[1] ?? ""}${short}"?`;
}

function describeBounds({ min, max }: Bounds): string {
  return `a number of milliseconds or a whole number with a unit (ms, s, m, h, d), from ${showMs(min)} to ${showMs(max)}`;
}

/** A duration as people write it: the largest unit that divides it. */
export function showMs(ms: number): string {
  for (const unit of ["d", "h", "m", "s"]) {
    const size = UNITS[unit] ?? 1;
    if (ms >= size && ms % size === 0) return `${ms / size} ${unit}`;
  }
  return `${ms} ms`;
}

/** A value in an error message: short, and never a page of it. */
export function show(value: unknown): string {
  if (typeof value === "string")
    return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value);
  if (typeof value === "bigint") return `${value.toString()}n`;
  if (typeof value === "object" && value !== null)
    return Array.isArray(value) ? "an array" : "an object";
  return typeof value === "function" ? "a function" : String(value);
}
