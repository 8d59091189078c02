import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { command } from "../fixtures/command.ts";
import { plainEnv, ROOT } from "./built.ts";

const LINE = /^\d+ passed, \d+ failed, \d+ skipped$/gm;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "ringfence-reporter-"));
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Runs one test file under our reporter; what it ended with, and its plain lines. */
async function run(
  name: string,
  body: string,
  env: NodeJS.ProcessEnv,
  args: readonly string[] = [],
): Promise<{ code: number | null; lines: string[]; last: string; out: string }> {
  const own = join(folder, name);
  mkdirSync(own);
  writeFileSync(join(own, "a.test.js"), body);
  const { code, stdout } = await command(
    process.execPath,
    [
      join(ROOT, "node_modules/vitest/vitest.mjs"),
      ...["run", "--globals", "--root", own, "--reporter=default"],
      `--reporter=${join(ROOT, "test/plain-line-reporter.ts")}`,
      ...args,
    ],
    { cwd: ROOT, env: plainEnv({ CI: "", ...env }) },
  );
  return {
    code,
    lines: stdout.match(LINE) ?? [],
    last: stdout.trimEnd().split("\n").at(-1) ?? "",
    out: stdout,
  };
}

const PASSES = 'it("a", () => {});';
const SKIPS = `${PASSES} it.skipIf(true)("b", () => {});`;

it("ends with the one line, and with success", async () => {
  const { code, lines, last } = await run("passes", PASSES, { CI: "true" });
  expect([code, lines, last]).toEqual([0, ["1 passed, 0 failed, 0 skipped"], lines[0]]);
});

it("a skipped test is only told on a developer's machine, and fails in CI", async () => {
  const here = await run("skips", SKIPS, {});
  expect([here.code, here.last]).toEqual([0, "1 passed, 0 failed, 1 skipped"]);
  const ci = await run("skips-ci", SKIPS, { CI: "true" });
  expect([ci.code, ci.lines, ci.last]).toEqual([1, [ci.last], "1 passed, 1 failed, 0 skipped"]);
  expect(ci.out).toContain("nothing may be in CI: a.test.js > b");
});

it("what `-t` leaves out is no skipped test", async () => {
  const { code, last } = await run("filter", `${PASSES} it("b", () => {});`, { CI: "true" }, [
    "-t",
    "a",
  ]);
  expect([code, last]).toEqual([0, "1 passed, 0 failed, 1 skipped"]);
});

it("a missing server fails in CI, and only there", async () => {
  const missing = { RINGFENCE_MISSING: "one two" };
  const here = await run("missing", PASSES, missing);
  expect([here.code, here.last]).toEqual([0, "1 passed, 0 failed, 0 skipped"]);
  const ci = await run("missing-ci", PASSES, { ...missing, CI: "true" });
  expect([ci.code, ci.last]).toEqual([1, "1 passed, 2 failed, 0 skipped"]);
});

it("counts what fails outside a test, and a run without a test fails", async () => {
  const rejection = `${PASSES} Promise.reject(new Error("nobody"));`;
  const unhandled = await run("unhandled", rejection, {});
  expect([unhandled.code, unhandled.last]).toEqual([1, "1 passed, 1 failed, 0 skipped"]);
  const broken = await run("broken", 'throw new Error("load");', {});
  expect([broken.code, broken.last]).toEqual([1, "0 passed, 1 failed, 0 skipped"]);
  const empty = await run("empty", 'describe("x", () => { it.skipIf(true)("a", () => {}); });', {});
  expect([empty.code, empty.last]).toEqual([1, "0 passed, 0 failed, 1 skipped"]);
});
