import { InvalidArgumentError } from "../core/errors.ts";

/** Reads an option as a whole number. @throws InvalidArgumentError outside the bounds, both inclusive */
export function wholeNumber(
  option: string,
  text: string,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw new InvalidArgumentError(
    `Expected \`${option}\` to be a whole number from ${min} to ${max}, got ${JSON.stringify(text)}.`,
  );
}
