import { expect, it } from "vitest";
import { Secrets } from "../../src/core/secrets.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";

const hash = (secret: string): string => systemMac.sha256(secret);

it("draws ids of 162 bits in base64url, no two alike", () => {
  const secrets = new Secrets(systemRandom, (secret) => secret);
  const ids = Array.from({ length: 10_000 }, () => secrets.nextId());
  expect(ids.filter((id) => !/^[\w-]{27}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
  // Every place takes every letter: a biased or stuck draw would not.
  for (let place = 0; place < 27; place += 1)
    expect(new Set(ids.map((id) => id[place])).size).toBe(64);
});

it("draws secrets of 20 characters, no two alike, each with its own hash for an id", () => {
  const secrets = new Secrets(systemRandom, hash);
  const drawn = Array.from({ length: 1000 }, () => secrets.next());
  expect(drawn.filter(({ secret }) => secret.length !== 20)).toEqual([]);
  expect(drawn.map(({ grantId }) => grantId)).toEqual(drawn.map(({ secret }) => hash(secret)));
  expect(new Set(drawn.map(({ secret }) => secret)).size).toBe(drawn.length);
});

it("forgets what was drawn in advance, ids as well as secrets", () => {
  let draws = 0;
  const random = { bytes: (n: number) => new Uint8Array(n).fill((draws += 1)), unit: () => 0 };
  const secrets = new Secrets(random, hash);
  const before = [secrets.next(), secrets.nextId()];
  expect([secrets.next(), secrets.nextId()]).toEqual(before);
  secrets.forget();
  const after = [secrets.next(), secrets.nextId()];
  expect(after[0]).not.toEqual(before[0]);
  expect(after[1]).not.toBe(before[1]);
});
