import { join, resolve } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { command, type Ended } from "../fixtures/command.ts";
import { otherNode } from "../fixtures/other-node.ts";
import { ensureBuilt, plainEnv, ROOT } from "../package/built.ts";

beforeAll(() => {
  ensureBuilt();
}, 60_000);

const CONTRACT = resolve(import.meta.dirname, "../fixtures/other-node-contract.ts");
const USING = resolve(import.meta.dirname, "../fixtures/other-node-using.ts");

/** Newer versions read TypeScript themselves; this one needs tsx, without the paths that lead to the sources. */
function start(node: string): readonly string[] {
  if (node !== process.execPath) return ["--no-warnings"];
  const tsx = join(ROOT, "node_modules/tsx/dist/cli.mjs");
  return [tsx, "--tsconfig", join(ROOT, "tsconfig.base.json")];
}

async function run(node: string, args: readonly string[]): Promise<Ended> {
  return await command(node, args, { cwd: ROOT, env: plainEnv() });
}

/** The number that node:test counts under a word, in any of its output formats. */
function counted(output: string, word: string): number {
  return Number(new RegExp(`^(?:#|ℹ) ${word} (\\d+)$`, "m").exec(output)?.[1]);
}

describe.each([
  { label: "this Node", node: process.execPath, client: "own" },
  { label: "Node 22", node: otherNode("22"), client: "own" },
  { label: "Node 24", node: otherNode("24"), client: "own" },
  { label: "Node 24", node: otherNode("24"), client: "libsql" },
])("the built package on $label, client $client", ({ node, client }) => {
  it.skipIf(node === null)("keeps the driver contract over SQLite", async () => {
    const path = node ?? "";
    const { code, stdout, stderr } = await run(path, [...start(path), CONTRACT, client]);
    expect(code, stdout.slice(-4000) + stderr).toBe(0);
    expect([counted(stdout, "fail"), counted(stdout, "cancelled")]).toEqual([0, 0]);
    expect(counted(stdout, "pass")).toBeGreaterThan(100);
    const builtIn = await run(path, ["-p", "Boolean(process.getBuiltinModule('node:sqlite'))"]);
    const own = builtIn.stdout.trim() === "true" ? "node:sqlite" : "libsql";
    expect(stderr).toContain(`client: ${client === "own" ? own : "handed in"}\n`);
  });
});

describe.each(["22", "24"] as const)("the command on Node %s", (major) => {
  const node = otherNode(major);

  it.skipIf(node === null)("tells its story to the end", async () => {
    const { code, stdout } = await run(node ?? "", [join(ROOT, "dist/cli/main.cjs"), "demo"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/rider 1 {2}writes its line +REFUSED: claimed by \d+ since/);
  });
});

it.skipIf(otherNode("24") === null)("Node 24 runs `await using` natively", async () => {
  const node = otherNode("24") ?? "";
  const { code, stdout, stderr } = await run(node, [...start(node), USING]);
  expect([code, stderr]).toEqual([0, ""]);
  expect(JSON.parse(stdout)).toEqual([true, true, false, true, false]);
});
