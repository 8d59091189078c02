import { readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { buildFirst, place, ringfence } from "./ringfence.ts";

buildFirst();
const { env, file } = place();
const soak = process.env["RINGFENCE_SOAK"] === "1";
const [PROCESSES, RUNS] = soak ? [6, 20] : [6, 3];

it(`lets ${PROCESSES} processes change one file, one at a time`, async () => {
  writeFileSync(file("counter"), "0");
  writeFileSync(file("log"), "");
  // Read, pause, write: two at a time would lose an increment, and the log would show them inside each other.
  const script = `
    echo "in $$" >> ${file("log")}
    n=$(cat ${file("counter")}); sleep 0.02; echo $((n + 1)) > ${file("counter")}
    echo "out $$ $RINGFENCE_TOKEN" >> ${file("log")}`;
  const codes = await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const own: (number | null)[] = [];
      for (let i = 0; i < RUNS; i += 1)
        own.push(
          (await ringfence(["run", "counter", "-q", "--", "sh", "-c", script], { env })).code,
        );
      return own;
    }),
  );
  expect(new Set(codes.flat())).toEqual(new Set([0]));
  expect(Number(readFileSync(file("counter"), "utf8"))).toBe(PROCESSES * RUNS);
  const lines = readFileSync(file("log"), "utf8").trimEnd().split("\n");
  expect(lines).toHaveLength(2 * PROCESSES * RUNS);
  let last = 0n;
  for (let i = 0; i < lines.length; i += 2) {
    const [, pid] = lines[i]?.split(" ") ?? [];
    const [what, same, token = ""] = lines[i + 1]?.split(" ") ?? [];
    expect([lines[i], what, same]).toEqual([`in ${pid ?? ""}`, "out", pid]);
    expect(BigInt(token)).toBeGreaterThan(last);
    last = BigInt(token);
  }
});
