import { deflateRawSync, inflateRawSync } from "node:zlib";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { Case } from "./search.ts";

const PREFIX = "lab1:";
/** A replay string is at most so long; what does not fit is given by its seed alone. */
const MAX_LENGTH = 2048;
/** What it may unpack to. */
const MAX_BYTES = 1 << 20;

type Packed = readonly [
  subject: string,
  seed: number,
  picks: Readonly<Record<string, readonly number[]>> | 0,
];

/** A case as one short line. Decisions that are not harmless are written as pairs of their place and what was picked. */
export function encodeCase({ subject, seed, picks }: Case): string {
  const sparse: Record<string, number[]> = {};
  for (const [site, stream] of picks ?? [])
    sparse[site] = stream.flatMap((picked, index) => (picked === 0 ? [] : [index, picked]));
  const pack = (packed: Packed): string =>
    PREFIX + deflateRawSync(JSON.stringify(packed), { level: 9 }).toString("base64url");
  const whole = pack([subject, seed, picks === null ? 0 : sparse]);
  return whole.length <= MAX_LENGTH ? whole : pack([subject, seed, 0]);
}

/** @throws InvalidArgumentError for anything that `encodeCase` did not make */
export function decodeCase(text: string): Case {
  try {
    if (!text.startsWith(PREFIX)) throw new SyntaxError("no prefix");
    const body = text.slice(PREFIX.length);
    const packed = Buffer.from(body, "base64url");
    // Decoding ignores what is no part of the alphabet.
    if (packed.toString("base64url") !== body) throw new SyntaxError("not base64url");
    const bytes = inflateRawSync(packed, { maxOutputLength: MAX_BYTES });
    const [subject, seed, sparse] = JSON.parse(bytes.toString()) as Packed;
    if (typeof subject !== "string" || typeof seed !== "number")
      throw new SyntaxError("not a case");
    return { subject, seed, picks: sparse === 0 ? null : unpack(sparse) };
  } catch (error) {
    throw new InvalidArgumentError(
      'Expected a replay string that begins with "lab1:" and is whole.',
      error,
    );
  }
}

function unpack(sparse: Readonly<Record<string, readonly number[]>>): Map<string, number[]> {
  const picks = new Map<string, number[]>();
  for (const [site, pairs] of Object.entries(sparse)) {
    const stream: number[] = [];
    for (let at = 0; at + 1 < pairs.length; at += 2) {
      const [index = 0, picked = 0] = [pairs[at], pairs[at + 1]];
      if (!Number.isInteger(index) || index < 0 || index > MAX_BYTES)
        throw new SyntaxError("not a place");
      while (stream.length < index) stream.push(0);
      stream[index] = picked;
    }
    picks.set(site, stream);
  }
  return picks;
}
