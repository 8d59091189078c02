import { show } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";

/** The longest lock name, in bytes of UTF-8. */
const MAX_NAME_BYTES = 512;

/** The usual name, which needs no look at normal forms. */
const ASCII = /^[\x20-\x7e]+$/;

/** NUL, other control characters, and halves of surrogate pairs. */
const REFUSED = /[\p{Cc}\p{Cs}]/u;

/** How many bytes `text` takes as UTF-8, without making them. */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    // Each half of a surrogate pair counts two: the pair takes four.
    else bytes += unit >= 0xd800 && unit <= 0xdfff ? 2 : 3;
  }
  return bytes;
}

/**
 * Checks a lock name, namespace or resource: 1 to 512 bytes of UTF-8, in NFC, no control characters.
 * @throws InvalidArgumentError and never changes the name: two spellings must not become one lock silently
 */
export function checkName(name: unknown, what = "lock name"): asserts name is string {
  if (typeof name === "string" && name.length <= MAX_NAME_BYTES && ASCII.test(name)) return;
  const complaint = (expected: string): InvalidArgumentError =>
    new InvalidArgumentError(`Expected the ${what} to be ${expected}, got ${show(name)}.`);
  if (typeof name !== "string") throw complaint("a string");
  if (name === "") throw complaint("at least one character");
  if (name.length > MAX_NAME_BYTES || utf8Bytes(name) > MAX_NAME_BYTES)
    throw complaint(`at most ${MAX_NAME_BYTES} bytes of UTF-8`);
  if (REFUSED.test(name)) throw complaint("free of control characters and lone surrogates");
  if (name.normalize("NFC") !== name)
    throw complaint('in Unicode normal form C (`name.normalize("NFC")`)');
}

/** What is the same when it is encoded: the usual name. */
const PLAIN = /^[A-Za-z0-9._-]+$/;

/** The one encoding of a name for all stores: everything but `[A-Za-z0-9._-]` percent-encoded, so that bytes sort. */
export function encodeName(name: string): string {
  if (PLAIN.test(name)) return name;
  return encodeURIComponent(name).replace(
    /[!'()*~]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Reads what `encodeName` wrote. */
export function decodeName(encoded: string): string {
  return decodeURIComponent(encoded);
}

/** Order of encoded bytes: the one in which several locks are taken, in every process alike. */
export function compareNames(a: string, b: string): number {
  const [left, right] = [encodeName(a), encodeName(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}
