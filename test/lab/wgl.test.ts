import { expect, it } from "vitest";
import { CHECKERS } from "../../src/lab/checkers/index.ts";
import { FREE, type LockModel, type LockOp, stepLock } from "../../src/lab/checkers/models.ts";
import { type KnownTenure, opsOf, placeInOrder } from "../../src/lab/checkers/tenures.ts";
import { searchOrder } from "../../src/lab/checkers/wgl.ts";
import { History, type NewEv } from "../../src/lab/history.ts";
import { rndOf } from "./clean-history.ts";

const soak = process.env["RINGFENCE_SOAK"] === "1";
const EVENT = { i: 0, t: 0, p: "A", inc: 0, k: "ok", f: "acquire" } as const;

/** Every order, by trying all of them. */
function bruteForce(ops: readonly LockOp[], model: LockModel): boolean {
  const place = (left: readonly LockOp[], state: typeof FREE, from: number): boolean => {
    if (left.every(({ must }) => !must)) return true;
    return left.some((op) => {
      const at = Math.max(from, op.call);
      const after = at <= op.ret ? stepLock(model, state, op) : null;
      return (
        after !== null &&
        place(
          left.filter((other) => other !== op),
          after,
          at,
        )
      );
    });
  };
  return place(ops, FREE, -Infinity);
}

const MODELS: readonly LockModel[] = [
  { kind: "mutex" },
  { kind: "mutex", fenced: true },
  { kind: "mutex", reentrant: 2 },
  { kind: "mutex", fenced: true, reentrant: 2 },
  { kind: "permits", permits: 2 },
];

/** Few calls of few owners, in a short time: often possible, often not. */
function randomOps(seed: number): LockOp[] {
  const rnd = rndOf(seed);
  const int = (n: number): number => Math.floor(rnd() * n);
  return Array.from({ length: 2 + int(5) }, () => {
    const f = (["acquire", "release", "acquire", "renew", "expire"] as const)[int(5)]!;
    const call = int(12);
    const must = f !== "expire" && rnd() < 0.8;
    return {
      f,
      owner: "AB"[int(2)]!,
      token: rnd() < 0.2 ? undefined : BigInt(1 + int(4)),
      call,
      ret: must ? call + int(8) : Infinity,
      must,
      event: EVENT,
    };
  });
}

it("finds an order exactly where trying every order finds one", { timeout: 600_000 }, () => {
  const found = { yes: 0, no: 0 };
  for (let seed = 1; seed <= (soak ? 200_000 : 3000); seed += 1) {
    const ops = randomOps(seed);
    for (const model of MODELS) {
      const result = searchOrder(ops, model, FREE, 1e6);
      const expected = bruteForce(ops, model);
      expect(result.verdict, `seed ${seed} ${JSON.stringify(model)}`).toBe(expected);
      found[expected ? "yes" : "no"] += 1;
    }
  }
  expect(Math.min(found.yes, found.no)).toBeGreaterThan(1000);
});

it("says unknown when the steps are used up", () => {
  const ops = randomOps(3);
  expect(searchOrder(ops, { kind: "mutex" }, FREE, 1).verdict).toBe("unknown");
});

it("places tokens in order exactly where the search finds an order", { timeout: 600_000 }, () => {
  const found = { yes: 0, no: 0 };
  for (let seed = 1; seed <= (soak ? 200_000 : 5000); seed += 1) {
    const rnd = rndOf(seed);
    const int = (n: number): number => Math.floor(rnd() * n);
    const tenures: KnownTenure[] = Array.from({ length: 2 + int(3) }, (_, n) => {
      const call = n * 5 + int(6) - 3;
      const acquire = { call, ret: call + int(6), must: true, event: EVENT };
      const renewed = call + 2 + int(4);
      const released = call + 3 + int(6);
      const must = rnd() < 0.7;
      return {
        owner: `o${n}`,
        acquire,
        token: BigInt(n + 1),
        renewals:
          rnd() < 0.3 ? [{ call: renewed, ret: renewed + int(4), must: true, event: EVENT }] : [],
        release:
          rnd() < 0.8
            ? { call: released, ret: must ? released + int(5) : Infinity, must, event: EVENT }
            : undefined,
        expiresFrom: call + 4 + int(8),
      };
    });
    const greedy = "end" in placeInOrder(tenures, -Infinity);
    const searched = searchOrder(opsOf(tenures), { kind: "mutex", fenced: true }, FREE, 1e6);
    expect(greedy, `seed ${seed}`).toBe(searched.verdict);
    found[greedy ? "yes" : "no"] += 1;
  }
  expect(Math.min(found.yes, found.no)).toBeGreaterThan(500);
});

function check(lines: readonly Omit<NewEv, "p">[], options = {}): boolean | "unknown" {
  const history = new History();
  for (const line of lines) history.append({ p: "A", lock: "l", ...line });
  return CHECKERS.P12.check(history, options).verdict;
}

it("lets a call of unknown outcome explain a grant, and never a second one", () => {
  const a = { grant: "a", ttl: 100 } as const;
  const b = { grant: "b", ttl: 100 } as const;
  const unknown = [
    { t: 0, op: 1, k: "invoke", f: "acquire", ...a },
    { t: 5, op: 1, k: "info", f: "acquire", ...a },
    { t: 6, op: 2, k: "invoke", f: "release", ...a },
    { t: 7, op: 2, k: "ok", f: "release", ...a },
    { t: 8, op: 3, k: "invoke", f: "acquire", ...b },
    { t: 9, op: 3, k: "ok", f: "acquire", ...b },
  ] as const;
  expect(check(unknown)).toBe(true);
  // Without the unknown call nobody could have released.
  expect(check(unknown.slice(2))).toBe(true);
  const twice = [
    ...unknown,
    { ...unknown[4], t: 10, op: 4, grant: "c" },
    { ...unknown[5], t: 11, op: 4, grant: "c" },
  ];
  expect(check(twice)).toBe(false);
});

it("allows as many permits as there are, and as many entries as are agreed", () => {
  const acquire = (t: number, grant: string): Omit<NewEv, "p">[] => [
    { t, op: t + 1, k: "invoke", f: "acquire", grant, mode: "permits", permits: 2 },
    { t: t + 1, op: t + 1, k: "ok", f: "acquire", grant, mode: "permits", permits: 2 },
  ];
  expect(check([...acquire(0, "a"), ...acquire(2, "b")])).toBe(true);
  const ttl = { ttl: 1000 };
  const third = [...acquire(0, "a"), ...acquire(2, "b"), ...acquire(4, "c")].map((e) => ({
    ...e,
    ...ttl,
  }));
  expect(check(third)).toBe(false);
  const entered = third.map((event) => ({
    ...event,
    mode: undefined,
    permits: undefined,
    grant: "a",
    token: 4n,
  }));
  const model = (reentrant: number): object => ({
    model: { kind: "mutex", fenced: true, reentrant },
  });
  expect(check(entered, model(3))).toBe(true);
  expect(check(entered, model(2))).toBe(false);
});
