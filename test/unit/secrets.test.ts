import { expect, it } from "vitest";
import { Secrets } from "../../src/core/secrets.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";

it("draws ids of 162 bits in base64url, no two alike", () => {
  const secrets = new Secrets(systemRandom);
  const ids = Array.from({ length: 10_000 }, () => secrets.nextId());
  expect(ids.filter((id) => !/^[\w-]{27}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
  // Every place takes every letter: a biased or stuck draw would not.
  for (let place = 0; place < 27; place += 1)
    expect(new Set(ids.map((id) => id[place])).size).toBe(64);
});

it("forgets what was drawn in advance, ids as well as secrets", () => {
  let draws = 0;
  const secrets = new Secrets({
    bytes: (n) => new Uint8Array(n).fill((draws += 1)),
    unit: () => 0,
  });
  const before = [secrets.next(), secrets.nextId()];
  expect([secrets.next(), secrets.nextId()]).toEqual(before);
  secrets.forget();
  const after = [secrets.next(), secrets.nextId()];
  expect(after[0]).not.toBe(before[0]);
  expect(after[1]).not.toBe(before[1]);
});
