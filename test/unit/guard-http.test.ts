import { expect, it } from "vitest";
import { InvalidArgumentError, StaleTokenError } from "../../src/core/errors.ts";
import type { Claim } from "../../src/core/guard.ts";
import { writeSequencer } from "../../src/core/sequencer.ts";
import { type HttpGuard, httpGuard } from "../../src/guards/http/index.ts";
import { Newest } from "../../src/guards/http/newest.ts";
import { type MemoryTransaction, memoryGuard, memoryStore } from "../../src/guards/memory/index.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";
import { id } from "../../src/testing/guard-contract/world.ts";

const SCOPE = id();
const claim = (token: bigint, scope = SCOPE): Claim => ({ token, grantId: id(), scope });

it("the newest seen refuses smaller tokens and other grants of the same, all of a list", () => {
  const newest = new Newest(10);
  const mine = claim(33n);
  expect(newest.knows(["a", "b"], mine)).toBe(false);
  newest.accepted(["a", "b"], mine);
  expect(newest.knows(["a", "b"], mine)).toBe(true);
  expect(newest.knows(["a", "c"], mine)).toBe(false);
  expect(newest.knows(["a"], claim(34n))).toBe(false);
  for (const late of [claim(32n), claim(33n)])
    expect(() => newest.knows(["c", "b"], late)).toThrow(StaleTokenError);
});

it("the newest seen says nothing about another scope, and forgets what the store refused", () => {
  const newest = new Newest(10);
  const mine = claim(33n);
  newest.accepted(["a"], mine);
  expect(newest.knows(["a"], claim(1n, id()))).toBe(false);
  newest.accepted(["a"], claim(32n));
  expect(newest.knows(["a"], mine)).toBe(true);
  newest.refused(["a"], claim(40n));
  expect(newest.knows(["a"], mine)).toBe(true);
  newest.refused(["a"], mine);
  expect(newest.knows(["a"], mine)).toBe(false);
});

it("the newest seen keeps no more than its limit", () => {
  const newest = new Newest(2);
  const mine = claim(33n);
  for (const resource of ["a", "b", "c"]) newest.accepted([resource], mine);
  expect(["a", "b", "c"].map((resource) => newest.knows([resource], mine))).toEqual([
    false,
    true,
    true,
  ]);
  const none = new Newest(0);
  none.accepted(["a"], mine);
  expect(none.knows(["a"], mine)).toBe(false);
});

/** A request as Node's `http` has it, and what its handler was given. */
async function ask(
  guard: HttpGuard<MemoryTransaction, void>,
  sequencer: string,
): Promise<{ status: number; resources?: readonly string[] | undefined }> {
  const response = {
    statusCode: 200,
    headersSent: false,
    setHeader: () => undefined,
    end: () => undefined,
  };
  let resources: readonly string[] | undefined;
  const request = { method: "PUT", headers: { "ringfence-sequencer": sequencer } };
  await guard.node((_request, _response, fence) => {
    resources = fence?.resources;
  })(request, response);
  return { status: response.statusCode, resources };
}

function inMemory(counts: { claims: number }, remember = 10): HttpGuard<MemoryTransaction, void> {
  const inner = memoryGuard();
  return httpGuard({
    guard: {
      claim: async (...args: Parameters<typeof inner.claim>) => {
        counts.claims += 1;
        return inner.claim(...args);
      },
      verify: (...args: Parameters<typeof inner.verify>) => {
        inner.verify(...args);
      },
    },
    db: memoryStore(),
    remember,
  });
}

it("claims on the first request of a grant only, and on each where nothing is remembered", async () => {
  const payload = { name: "a", mode: "exclusive", ...claim(33n) } as const;
  const sequencer = writeSequencer(payload, undefined, systemMac);
  for (const [remember, expected] of [
    [10, 1],
    [0, 3],
  ] as const) {
    const counts = { claims: 0 };
    const guard = inMemory(counts, remember);
    for (let i = 0; i < 3; i += 1)
      expect(await ask(guard, sequencer)).toEqual({ status: 200, resources: ["a"] });
    expect(counts.claims).toBe(expected);
  }
});

it("refuses impossible options and routes when they are given", () => {
  const right = { guard: memoryGuard(), db: memoryStore() };
  const wrong: unknown[] = [
    { db: right.db },
    { ...right, require: "sometimes" },
    { ...right, remember: -1 },
    { ...right, keys: [{ kid: "a", secret: "short" }] },
    { ...right, locks: { namespace: "n" } },
  ];
  for (const options of wrong)
    expect(() => httpGuard(options as typeof right)).toThrow(InvalidArgumentError);
  const guard = httpGuard(right);
  expect(() => guard.express({ require: "often" as "always" })).toThrow(InvalidArgumentError);
  expect(() => guard.hono({ lock: "a" as unknown as () => string })).toThrow(InvalidArgumentError);
  expect(() => guard.of({})).toThrow(InvalidArgumentError);
});
