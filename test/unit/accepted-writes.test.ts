import { expect, it } from "vitest";
import { type AcceptedWrite, checkAccepted } from "../support/accepted-writes.ts";

const write = (
  basedOn: string,
  version: string,
  token: number,
  grantId = `g${token}`,
): AcceptedWrite => ({
  basedOn,
  version,
  token: BigInt(token),
  grantId,
});
const GOOD = [write("0", "a", 1), write("a", "b", 1), write("b", "c", 4), write("c", "d", 4)];

it("accepts a history in which each write follows the one before and tokens never fall", () => {
  expect(checkAccepted("0", GOOD)).toEqual({ lostUpdates: 0, staleWrites: 0, witness: null });
  expect(checkAccepted("0", []).witness).toBeNull();
});

it("finds a lost update, wherever it is", () => {
  for (let i = 0; i < GOOD.length; i += 1) {
    const bad = GOOD.map((good, at) => (at === i ? { ...good, basedOn: "older" } : good));
    expect(checkAccepted("0", bad)).toMatchObject({ lostUpdates: 1, staleWrites: 0 });
  }
  const dropped = GOOD.filter((_, at) => at !== 1);
  expect(checkAccepted("0", dropped).witness).toContain("c (token 4) was based on b, but a");
});

it("finds a stale write: a smaller token, or the same one under another grant", () => {
  const smaller = [...GOOD, write("d", "e", 3)];
  const twin = [...GOOD, write("d", "e", 4, "another")];
  for (const bad of [smaller, twin])
    expect(checkAccepted("0", bad)).toMatchObject({ lostUpdates: 0, staleWrites: 1 });
});
