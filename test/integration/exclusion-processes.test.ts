import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { size } from "../fixtures/soak.ts";
import { bundle } from "../support/bundle.ts";
import type { CounterLine, CounterOrder } from "../support/counter-worker.ts";

const PROCESSES = 8;
const TIMES = size(25, 500);

describe(`${PROCESSES} processes that change one file, ${TIMES} times each`, () => {
  const folder = mkdtempSync(join(tmpdir(), "ringfence-counter-"));
  let worker: Awaited<ReturnType<typeof bundle>> | undefined;

  beforeAll(async () => {
    worker = await bundle("test/support/counter-worker.ts");
  }, 60_000);
  afterAll(() => {
    worker?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function run(
    name: string,
    handOff: CounterOrder["handOff"],
    callers: number,
  ): Promise<CounterLine[]> {
    const place = (what: string): string => join(folder, `${name}.${what}`);
    const order: CounterOrder = {
      store: place("db"),
      counter: place("counter"),
      log: place("log"),
      times: TIMES,
      handOff,
      callers,
    };
    writeFileSync(order.counter, "0");
    const codes = await Promise.all(
      Array.from({ length: PROCESSES }, async () => {
        const child = spawn(process.execPath, [worker?.file ?? "", JSON.stringify(order)], {
          stdio: ["ignore", "inherit", "inherit"],
        });
        return await new Promise((resolve) =>
          child.on("exit", (code, signal) => {
            resolve(code ?? signal);
          }),
        );
      }),
    );
    expect(codes).toEqual(Array.from({ length: PROCESSES }, () => 0));
    expect(Number(readFileSync(order.counter, "utf8"))).toBe(PROCESSES * TIMES);
    const lines = readFileSync(order.log, "utf8").trimEnd().split("\n");
    return lines.map((line) => JSON.parse(line) as CounterLine);
  }

  /** Every section ends before the next begins, under a larger token. */
  function expectNoOverlap(lines: readonly CounterLine[]): void {
    expect(lines).toHaveLength(2 * PROCESSES * TIMES);
    let last = 0n;
    for (let i = 0; i < lines.length; i += 2) {
      const [begin, end] = [lines[i], lines[i + 1]];
      expect([begin?.what, end?.what, end?.pid, end?.token]).toEqual([
        "in",
        "out",
        begin?.pid,
        begin?.token,
      ]);
      const token = BigInt(begin?.token ?? 0);
      expect(token).toBeGreaterThan(last);
      last = token;
    }
  }

  it("lose no change and never overlap, with hand-off inside each process", async () => {
    expectNoOverlap(await run("local", "local", 4));
  }, 300_000);

  it('are served strictly first in, first out with `handOff: "off"`', async () => {
    const lines = await run("off", "off", 1);
    expectNoOverlap(lines);
    const ends = lines.filter(({ what }) => what === "out");
    let waited = 0;
    let inversions = 0;
    ends.forEach(({ pending }, i) => {
      const [head] = pending ?? [];
      const next = ends[i + 1];
      if (head === undefined || next === undefined) return;
      waited += 1;
      if (next.grantId !== head) inversions += 1;
    });
    expect(waited).toBeGreaterThan(PROCESSES);
    expect(inversions).toBe(0);
  }, 300_000);
});
