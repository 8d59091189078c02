import type { Mode } from "./capabilities.ts";
import { InvalidArgumentError } from "./errors.ts";
import { parseToken } from "./fencing-token.ts";
import { checkName } from "./lock-name.ts";
import type { Mac } from "./mac.ts";

/** A signing key with its public id. The first of a list signs; all of them verify, so keys can rotate. */
export interface SequencerKey {
  /** 1 to 32 characters of `[A-Za-z0-9_-]`. */
  readonly kid: string;
  /** At least 16 bytes. Whoever can verify with it can also sign. */
  readonly secret: string | Uint8Array;
}

/** What a sequencer says. */
export interface SequencerPayload {
  readonly name: string;
  readonly mode: Mode;
  readonly token: bigint;
  readonly grantId: string;
  readonly scope: string;
}

/** The longest sequencer that is read, in characters. */
export const MAX_SEQUENCER = 2048;
const MODES: readonly unknown[] = ["exclusive", "shared"];
const ID = /^[A-Za-z0-9_-]{27}$/;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** @throws InvalidArgumentError for a key that could not protect anything */
export function checkKeys(keys: readonly SequencerKey[]): void {
  if (!Array.isArray(keys))
    throw new InvalidArgumentError("Expected the sequencer keys to be a list of { kid, secret }.");
  const seen = new Set<string>();
  for (const { kid, secret } of keys as readonly SequencerKey[]) {
    if (typeof kid !== "string" || !/^[A-Za-z0-9_-]{1,32}$/.test(kid) || seen.has(kid))
      throw new InvalidArgumentError(
        "Expected each `kid` to be 1 to 32 characters of [A-Za-z0-9_-], each only once.",
      );
    seen.add(kid);
    if ((typeof secret !== "string" && !(secret instanceof Uint8Array)) || secret.length < 16)
      throw new InvalidArgumentError(
        "Expected each sequencer key's `secret` to have at least 16 bytes.",
      );
  }
}

/** Writes `rf1.<kid>.<payload>.<mac>`; without a key, kid and mac are empty and the sequencer is unsigned. */
export function writeSequencer(
  payload: SequencerPayload,
  key: SequencerKey | undefined,
  mac: Mac,
): string {
  const json = canonical(payload);
  const head = `rf1.${key?.kid ?? ""}.${encode(json)}`;
  return `${head}.${key === undefined ? "" : mac.hmac(key.secret, head)}`;
}

/**
 * Reads and checks a sequencer. With keys, an unsigned one is refused; without, a signed one is (nobody could check it).
 * @throws InvalidArgumentError for anything that `writeSequencer` did not write with one of these keys
 */
export function readSequencer(
  text: string,
  keys: readonly SequencerKey[],
  mac: Mac,
): SequencerPayload {
  if (typeof text !== "string" || text.length > MAX_SEQUENCER)
    throw malformed("too long, or no string");
  const parts = text.split(".");
  const [version, kid, body, signature] = parts;
  if (
    parts.length !== 4 ||
    version !== "rf1" ||
    kid === undefined ||
    body === undefined ||
    signature === undefined
  )
    throw malformed("not of the form rf1.<kid>.<payload>.<mac>");
  if (keys.length === 0 && (kid !== "" || signature !== ""))
    throw malformed("signed, but there is no key to check it with");
  if (keys.length > 0) {
    const key = keys.find((candidate) => candidate.kid === kid);
    if (key === undefined)
      throw malformed(
        kid === "" ? "unsigned, and signatures are required" : "signed with an unknown key",
      );
    // The MAC is compared as text, so only the one canonical spelling of it passes.
    if (!mac.equal(signature, mac.hmac(key.secret, `rf1.${kid}.${body}`)))
      throw malformed("its signature is wrong");
  }
  return payloadOf(body);
}

function payloadOf(body: string): SequencerPayload {
  const json = decode(body);
  let value: unknown;
  try {
    value = JSON.parse(json ?? "");
  } catch {
    throw malformed("its payload is no JSON in strict base64url");
  }
  if (typeof value !== "object" || value === null) throw malformed("its payload is no object");
  const { name, mode, token, grantId, scope } = value as Record<string, unknown>;
  const number = parseToken(token);
  if (number === null) throw malformed("its token is out of range");
  if (!MODES.includes(mode) || !isId(grantId) || !isId(scope))
    throw malformed("a field is missing or wrong");
  checkName(name, "sequencer's lock name");
  const payload = { name, mode: mode as Mode, token: number, grantId, scope };
  // One spelling only: another order, extra fields or white space would be a second string for the same right.
  if (canonical(payload) !== json) throw malformed("its payload is not in its one form");
  return payload;
}

/** The payload's one spelling: these fields, in this order, whatever else the object carries. */
function canonical({ name, mode, token, grantId, scope }: SequencerPayload): string {
  return JSON.stringify({ name, mode, token: token.toString(), grantId, scope });
}

/** Whether `value` has the form of a grant id or scope: 160 bits as base64url. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && ID.test(value);
}

function malformed(why: string): InvalidArgumentError {
  return new InvalidArgumentError(`Expected a valid sequencer: this one is ${why}.`);
}

const UTF8 = new TextEncoder();
const STRICT_UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Base64url of the UTF-8 text, by hand: core knows no Buffer. */
function encode(text: string): string {
  const bytes = UTF8.encode(text);
  let out = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const [a = 0, b = 0, c = 0] = bytes.subarray(i, i + 3);
    const left = bytes.length - i;
    out += ALPHABET.charAt(a >> 2) + ALPHABET.charAt(((a & 3) << 4) | (b >> 4));
    if (left > 1) out += ALPHABET.charAt(((b & 15) << 2) | (c >> 6));
    if (left > 2) out += ALPHABET.charAt(c & 63);
  }
  return out;
}

/** What each character of base64url stands for, by its code; -1 for all others. */
const SIX_BITS = Int8Array.from({ length: 128 }, (_, code) =>
  ALPHABET.indexOf(String.fromCharCode(code)),
);

/** The text that `encode` made `body` from; `null` for every other spelling: a server reads one per request. */
function decode(body: string): string | null {
  if (body.length % 4 === 1) return null;
  const bytes = new Uint8Array(Math.floor((body.length * 3) / 4));
  let [bits, value, length] = [0, 0, 0];
  for (let i = 0; i < body.length; i += 1) {
    const six = SIX_BITS[body.charCodeAt(i)] ?? -1;
    if (six < 0) return null;
    value = ((value << 6) | six) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[length] = (value >> bits) & 0xff;
      length += 1;
    }
  }
  // Bits beyond the last byte that are set would be a second spelling of the same text.
  if ((value & ((1 << bits) - 1)) !== 0) return null;
  try {
    return STRICT_UTF8.decode(bytes);
  } catch {
    return null;
  }
}
