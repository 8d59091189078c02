import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { MAX_TOKEN } from "../../src/core/fencing-token.ts";
import {
  checkKeys,
  MAX_SEQUENCER,
  readSequencer,
  type SequencerKey,
  type SequencerPayload,
  writeSequencer,
} from "../../src/core/sequencer.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";

const KEY = { kid: "2026-11", secret: "a secret of at least 16 bytes" };
const OLD = { kid: "2026-10", secret: new Uint8Array(32).fill(7) };
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const SOAK = process.env["RINGFENCE_SOAK"] === "1";

const write = (payload: SequencerPayload, key?: SequencerKey): string =>
  writeSequencer(payload, key, systemMac);
const read = (text: string, keys: readonly SequencerKey[] = []): SequencerPayload =>
  readSequencer(text, keys, systemMac);

/** What `read` makes of it; `null` when it is refused, which must be by the one right class. */
function readOrNull(text: string, keys: readonly SequencerKey[] = []): SequencerPayload | null {
  try {
    return read(text, keys);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    return null;
  }
}

const PAYLOAD: SequencerPayload = {
  name: "orders/7",
  mode: "exclusive",
  token: 33n,
  grantId: "G".repeat(27),
  scope: "S".repeat(27),
};

const anyId = fc.string({
  unit: fc.constantFrom(...Array.from(ALPHABET)),
  minLength: 27,
  maxLength: 27,
});
const anyPayload: fc.Arbitrary<SequencerPayload> = fc.record({
  name: fc
    .string({ unit: "grapheme", minLength: 1, maxLength: 40 })
    .map((name) => name.normalize("NFC"))
    .filter((name) => !/[\p{Cc}\p{Cs}]/u.test(name)),
  mode: fc.constantFrom("exclusive" as const, "shared" as const),
  token: fc.bigInt({ min: 1n, max: MAX_TOKEN }),
  grantId: anyId,
  scope: anyId,
});

/** Base64url of any text, as an outsider would write it. */
const encode = (text: string): string => Buffer.from(text).toString("base64url");
const unsigned = (payload: unknown): string =>
  `rf1..${encode(typeof payload === "string" ? payload : JSON.stringify(payload))}.`;
const plain = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...PAYLOAD,
  token: "33",
  ...changes,
});

describe("a sequencer", () => {
  it("says after reading what was written, signed or not", () => {
    fc.assert(
      fc.property(anyPayload, fc.constantFrom(undefined, KEY, OLD), (payload, key) => {
        const text = write(payload, key);
        expect(read(text, key === undefined ? [] : [KEY, OLD])).toEqual(payload);
      }),
    );
  });

  it("has one spelling, whatever the order of the fields it was made from and what else they carry", () => {
    const { token, scope, ...rest } = PAYLOAD;
    const shuffled = { token, extra: "x", scope, ...rest } as SequencerPayload;
    expect(write(shuffled, KEY)).toBe(write(PAYLOAD, KEY));
    expect(read(write(shuffled))).toEqual(PAYLOAD);
  });

  it("stays within the longest that is read, for the longest name in its longest spelling", () => {
    for (const name of ['"'.repeat(512), "\\".repeat(512), "é".repeat(256), "🔒".repeat(128)]) {
      const text = write({ ...PAYLOAD, name, token: MAX_TOKEN }, { ...KEY, kid: "k".repeat(32) });
      expect(text.length).toBeLessThanOrEqual(MAX_SEQUENCER);
      expect(read(text, [{ ...KEY, kid: "k".repeat(32) }]).name).toBe(name);
    }
  });

  it("is verified by every key while keys rotate, and by none that was taken away", () => {
    const [before, now] = [write(PAYLOAD, OLD), write(PAYLOAD, KEY)];
    for (const text of [before, now]) expect(read(text, [KEY, OLD])).toEqual(PAYLOAD);
    expect(() => read(before, [KEY])).toThrow(/unknown key/);
    expect(() => read(now, [{ ...KEY, secret: "another secret, long enough" }])).toThrow(
      /signature/,
    );
    expect(() => read(now, [{ ...OLD, secret: KEY.secret }])).toThrow(/unknown key/);
  });

  it("is refused unsigned where there are keys, and signed where there are none", () => {
    expect(() => read(write(PAYLOAD), [KEY])).toThrow(/unsigned/);
    expect(() => read(write(PAYLOAD, KEY))).toThrow(/no key/);
    const [, , body] = write(PAYLOAD, KEY).split(".");
    expect(() => read(`rf1.${KEY.kid}.${body ?? ""}.`, [KEY])).toThrow(/signature/);
    expect(() => read(`rf1..${body ?? ""}.`, [KEY])).toThrow(/unsigned/);
  });

  it("is refused after every one-character edit when it is signed", () => {
    const text = write(PAYLOAD, KEY);
    const edits = [...singleEdits(text)];
    expect(edits.length).toBeGreaterThan(15_000);
    expect(edits.filter((edited) => readOrNull(edited, [KEY]) !== null)).toEqual([]);
  });

  it("is refused after every one-character edit that leaves the meaning, when it is unsigned", () => {
    const meaning = JSON.stringify(plain());
    const same = [...singleEdits(write(PAYLOAD))].filter((edited) => {
      const payload = readOrNull(edited);
      return (
        payload !== null &&
        JSON.stringify(plain({ ...payload, token: payload.token.toString() })) === meaning
      );
    });
    expect(same).toEqual([]);
  });

  it("is refused in every spelling of base64 but the strict one", () => {
    const [, , body = ""] = write(PAYLOAD).split(".");
    const loose = [
      `${body}=`,
      `${body}==`,
      `${body}A`,
      ` ${body}`,
      `${body}\n`,
      `${body.slice(0, 8)}\n${body.slice(8)}`,
      Buffer.from(body, "base64url").toString("base64"),
    ].filter((other) => other !== body);
    for (const other of loose) expect(readOrNull(`rf1..${other}.`), other).toBeNull();
  });

  it("is refused with a token that no driver may mint", () => {
    const forged = [
      (MAX_TOKEN + 1n).toString(),
      (2n ** 63n).toString(),
      "99999999999999999999",
      "0",
      "-1",
      "+1",
      "01",
      "1.0",
      "1e3",
      " 1",
      "",
      33,
      null,
    ];
    for (const token of forged)
      expect(readOrNull(unsigned(plain({ token }))), String(token)).toBeNull();
    expect(readOrNull(unsigned(plain({ token: MAX_TOKEN.toString() })))?.token).toBe(MAX_TOKEN);
  });

  it("is refused with fields that are missing, wrong, too many or in another order", () => {
    const text = JSON.stringify(plain());
    const { name, ...rest } = plain();
    const wrong = [
      "",
      "null",
      "7",
      "[]",
      "{}",
      `${text} `,
      text.replace("{", '{"__proto__":{},'),
      text.replace("{", '{"name":"other",'),
      JSON.stringify({ ...rest, name }),
      ...[
        { mode: "permits" },
        { mode: undefined },
        { grantId: "short" },
        { scope: undefined },
        { name: "" },
        { name: "a\u0000b" },
        { name: "n".repeat(513) },
        { name: "e\u0301" },
        { extra: 1 },
      ].map((change) => JSON.stringify(plain(change))),
    ];
    for (const payload of wrong) expect(readOrNull(unsigned(payload)), payload).toBeNull();
  });

  it("is refused when it is over-long, at once", () => {
    const started = performance.now();
    for (const text of [
      "x".repeat(MAX_SEQUENCER + 1),
      ".".repeat(50_000_000),
      "rf1..".padEnd(50_000_000, "A"),
    ])
      expect(readOrNull(text, [KEY])).toBeNull();
    expect(performance.now() - started).toBeLessThan(1000);
    for (const nothing of [undefined, null, 7, {}])
      expect(readOrNull(nothing as string)).toBeNull();
  });

  it("is never accepted as a mutant, in bounded time and memory", () => {
    const mutants = SOAK ? 1_000_000 : 20_000;
    const originals = [
      write(PAYLOAD, KEY),
      write({ ...PAYLOAD, token: MAX_TOKEN, name: "🔒 a/b" }, OLD),
      write({ ...PAYLOAD, mode: "shared", token: 1n }, KEY),
    ];
    const chance = generator(20261130);
    const heapBefore = process.memoryUsage().heapUsed;
    const started = performance.now();
    const accepted: string[] = [];
    let refusedCount = 0;
    for (let i = 0; i < mutants; i += 1) {
      const mutant = mutate(originals, chance);
      if (originals.includes(mutant)) continue;
      if (readOrNull(mutant, [KEY, OLD]) === null) refusedCount += 1;
      else accepted.push(mutant);
    }
    expect(accepted).toEqual([]);
    // Few mutations undo themselves: almost all of them must have been put to the test.
    expect(refusedCount).toBeGreaterThan(mutants * 0.95);
    expect((performance.now() - started) / mutants).toBeLessThan(1);
    expect(process.memoryUsage().heapUsed - heapBefore).toBeLessThan(256 * 1024 * 1024);
  }, 600_000);
});

describe("sequencer keys", () => {
  it("are refused when they could not protect anything, or cannot be told apart", () => {
    for (const keys of [
      [{ ...KEY, secret: "short" }],
      [{ ...KEY, secret: new Uint8Array(15) }],
      [{ ...KEY, kid: "" }],
      [{ ...KEY, kid: "a.b" }],
      [{ ...KEY, kid: "k".repeat(33) }],
      [KEY, { ...OLD, kid: KEY.kid }],
    ])
      expect(() => {
        checkKeys(keys);
      }).toThrow(InvalidArgumentError);
    checkKeys([KEY, OLD]);
  });
});

/** Every replacement and deletion of one character, and insertions of a few. */
function* singleEdits(text: string): Generator<string> {
  const odd = [".", "=", "+", "/", " ", "\n", "é"];
  for (let i = 0; i <= text.length; i += 1) {
    for (const character of ["A", "_", ...odd]) yield text.slice(0, i) + character + text.slice(i);
    if (i === text.length) return;
    yield text.slice(0, i) + text.slice(i + 1);
    for (const character of [...Array.from(ALPHABET), ...odd])
      if (text[i] !== character) yield text.slice(0, i) + character + text.slice(i + 1);
  }
}

/** Repeatable chance in [0, n). */
function generator(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/** One to three of the things that an attacker, or a bad copy, does to a sequencer. */
function mutate(originals: readonly string[], chance: (n: number) => number): string {
  const pick = (): string => originals[chance(originals.length)] ?? "";
  let text = pick();
  for (let steps = 1 + chance(3); steps > 0; steps -= 1) {
    const at = chance(text.length + 1);
    const to = at + chance(12);
    const [head, middle, tail] = [text.slice(0, at), text.slice(at, to), text.slice(to)];
    const parts = text.split(".");
    const other = pick().split(".");
    const part = chance(4);
    const mutations: (() => string)[] = [
      () => head + (ALPHABET[chance(64)] ?? "") + text.slice(at + 1),
      () => head + tail,
      () => head + middle + middle + tail,
      () => head + Array.from(middle).reverse().join("") + tail,
      () => text.slice(0, at),
      () => head + String.fromCharCode(chance(0x2_0000)) + tail,
      () => head + middle.toUpperCase() + tail,
      () => parts.with(Math.min(part, parts.length - 1), other[part] ?? "").join("."),
      () => [...parts, other[part] ?? ""].join("."),
      () => text + "A".repeat(chance(3000)),
      () => forge(text, chance),
    ];
    text = mutations[chance(mutations.length)]?.() ?? text;
  }
  return text;
}

/** Another payload under the old signature. */
function forge(text: string, chance: (n: number) => number): string {
  const [version = "", kid = "", body = "", mac = ""] = text.split(".");
  const json = Buffer.from(body, "base64url").toString();
  const raised = json.replace(/"token":"\d+"/, `"token":"${chance(1e9)}"`);
  return [version, kid, encode(raised), mac].join(".");
}
