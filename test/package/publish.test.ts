import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { command, type Ended } from "../fixtures/command.ts";
import { plainEnv, ROOT } from "./built.ts";

// The tools of `npm run check` are there to fail: each must refuse what it is there for.

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "ringfence-publish-"));
});
afterAll(() => {
  rmSync(home, { recursive: true, force: true });
});

const MODULE = { types: "./dist/index.d.ts", default: "./dist/index.js" };

/** A package of one module, with our check's settings. */
function plant(name: string, files: Record<string, string>, entry: object = MODULE): string {
  const folder = join(home, name);
  const all = {
    "package.json": JSON.stringify({
      name: "planted",
      version: "1.0.0",
      type: "module",
      license: "MIT",
      files: ["dist"],
      exports: { ".": entry },
    }),
    "dist/index.js": "export const a = 1;\n",
    "dist/index.d.ts": "export declare const a: number;\n",
    ...files,
  };
  for (const [path, text] of Object.entries(all)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  for (const path of ["knip.json", "tsconfig.base.json", "tsconfig.build.json"])
    cpSync(join(ROOT, path), join(folder, path));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

async function tool(folder: string, name: string, ...args: string[]): Promise<Ended> {
  const bin = join(ROOT, "node_modules/.bin", name);
  return await command(bin, args, { cwd: folder, env: plainEnv() });
}

const BROKEN = { types: "./dist/missing.d.ts", default: "./dist/index.js" };

it("publint accepts a whole package and refuses one whose types are missing", async () => {
  expect((await tool(plant("good", {}), "publint", "--strict")).code).toBe(0);
  expect((await tool(plant("bad", {}, BROKEN), "publint", "--strict")).code).toBe(1);
});

it("attw accepts a whole package and refuses one whose types are missing", async () => {
  const flags = ["--pack", ".", "--profile", "esm-only", "--quiet"];
  expect((await tool(plant("whole", {}), "attw", ...flags)).code).toBe(0);
  expect((await tool(plant("broken", {}, BROKEN), "attw", ...flags)).code).toBe(1);
});

describe("knip", () => {
  const unused = ["-t", "tsconfig.build.json"];
  const cycles = [...unused, "--include", "cycles"];
  const sources = {
    "src/index.ts": 'export { b } from "./b.ts";\n',
    "src/b.ts": "export const b = 1;\n",
  };

  it("refuses a file and an export that nobody uses", async () => {
    const good = plant("used", sources);
    const file = plant("file", { ...sources, "src/c.ts": "export const c = 1;\n" });
    const one = plant("export", {
      ...sources,
      "src/b.ts": "export const b = 1;\nexport const c = 2;\n",
    });
    const ends = await Promise.all(
      [good, file, one].map(async (at) => tool(at, "knip", ...unused)),
    );
    expect(ends.map(({ code }) => code)).toEqual([0, 1, 1]);
  });

  it("refuses a cycle", async () => {
    const cycle = plant("cycle", {
      ...sources,
      "src/b.ts": 'import { c } from "./c.ts";\nexport const b = (): number => c;\n',
      "src/c.ts": 'import { b } from "./b.ts";\nexport const c: number = b.length;\n',
    });
    expect((await tool(plant("line", sources), "knip", ...cycles)).code).toBe(0);
    expect((await tool(cycle, "knip", ...cycles)).code).toBe(1);
  });
});
