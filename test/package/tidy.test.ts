import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "./built.ts";
import { type Files, untidy } from "./tidy.ts";

/** Every text file that git tracks. */
function tracked(): Files {
  const list = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT }).toString().split("\0");
  const files = new Map<string, string>();
  for (const path of list) {
    if (path === "" || !existsSync(join(ROOT, path))) continue;
    const bytes = readFileSync(join(ROOT, path));
    if (!bytes.includes(0)) files.set(path, bytes.toString("utf8"));
  }
  return files;
}

it("the tree keeps its own rules", () => {
  const files = tracked();
  expect(files.size).toBeGreaterThan(50);
  expect(untidy(files)).toEqual([]);
});

describe("a planted breach is found", () => {
  // A "~" keeps each of these from being a breach of this file.
  it.each([
    ["src/a.ts", "x;\n".repeat(501), "more than 500 lines"],
    ["src/a.ts", "// TO~DO: later", "something unfinished"],
    ["scripts/a.mjs", "// FIX~ME", "something unfinished"],
    ["README.md", "see /wo~rk/x", "a path of one machine"],
    [".ci/run", "cd /tmp/w~t-x", "a path of one machine"],
    ["package-lock.json", "https://regi~stry.example.com/x", "a registry's host"],
    ["test/a.ts", "// @ts-~ignore", "a silenced check"],
    ["src/a.ts", "// eslint-~disable-next-line", "a silenced check"],
    ["src/a.ts", "// @ts-~expect-error", "an escape from the types"],
    ["src/a.ts", "try { f(); } catch {}", "an empty catch"],
    ["src/a.ts", "try { f(); } catch (e) {\n}", "an empty catch"],
    ["test/a.test.ts", 'it.on~ly("x", f);', "a test that is skipped or alone"],
    ["test/a.test.ts", 'describe.sk~ip("x", f);', "a test that is skipped or alone"],
  ])("%s: %s", (path, text, what) => {
    expect(untidy(new Map([[path, text.replace("~", "")]]))).toEqual([`${path}: ${what}`]);
  });
});
