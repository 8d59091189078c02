import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { command, type Ended } from "../fixtures/command.ts";
import { OTHER_NODES, otherNode } from "../fixtures/other-node.ts";
import { ensureBuilt, entries, manifest, plainEnv, ROOT } from "./built.ts";

/** A user's project in which the packed package is installed. */
let home: string;
let packed: readonly string[];

const NAMES = entries().map(({ subpath }) => `ringfence${subpath.slice(1)}`);
/** This Node, and the newer ones that `npm test` installs. */
const NODES: readonly [label: string, path: string | null][] = [
  ["this Node", process.execPath],
  ...OTHER_NODES.map((major): [string, string | null] => [`Node ${major}`, otherNode(major)]),
];

async function must(file: string, args: readonly string[], cwd: string): Promise<Ended> {
  const ended = await command(file, args, { cwd, env: plainEnv() });
  expect(ended.code, `${file} ${args.join(" ")}\n${ended.stdout}${ended.stderr}`).toBe(0);
  return ended;
}

beforeAll(async () => {
  ensureBuilt();
  home = realpathSync(mkdtempSync(join(tmpdir(), "ringfence-tarball-")));
  const { stdout } = await must(
    "npm",
    ["pack", "--json", "--ignore-scripts", "--pack-destination", home],
    ROOT,
  );
  const [pack] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  packed = pack?.files.map(({ path }) => path) ?? [];
  writeFileSync(
    join(home, "package.json"),
    JSON.stringify({
      private: true,
      dependencies: {
        ringfence: `file:${pack?.filename ?? ""}`,
        // The command's one dependency, from our own packages, so that this test needs no network.
        commander: `file:${join(ROOT, "node_modules/commander")}`,
      },
    }),
  );
  const quiet = ["--no-audit", "--no-fund", "--ignore-scripts"];
  await must("npm", ["install", "--offline", "--omit=optional", ...quiet], home);
}, 120_000);

afterAll(() => {
  rmSync(home, { recursive: true, force: true });
});

async function evaluate(node: string, type: "module" | "commonjs", code: string): Promise<unknown> {
  const { stdout } = await must(node, [`--input-type=${type}`, "--eval", code], home);
  return JSON.parse(stdout);
}

it("contains the build, its sources and the documents, and nothing else", () => {
  const top = new Set(packed.map((path) => path.split("/")[0]));
  expect([...top].sort()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "dist",
    "package.json",
    "src",
  ]);
  expect(packed.filter((path) => /\.(test|tsbuildinfo)|\.ringfence/.test(path))).toEqual([]);
});

/** Requires and imports every subpath, and compares what they got. */
const BOTH_WAYS = `
const names = ${JSON.stringify(NAMES)};
(async () => {
  const same = [];
  for (const name of names) {
    const [required, imported] = [require(name), await import(name)];
    same.push(Object.keys(imported).every((key) => required[key] === imported[key]));
  }
  const { LeaseLostError } = require("ringfence");
  const main = await import("ringfence");
  const error = new LeaseLostError("x", "expired", null);
  same.push(error instanceof main.RingfenceError, Object.keys(main).length > 10);
  console.log(JSON.stringify(same));
})();`;

for (const [label, node] of NODES)
  it.skipIf(node === null)(
    `every subpath can be imported and required, and both give one class: ${label}`,
    async () => {
      const seen = await evaluate(node ?? "", "commonjs", BOTH_WAYS);
      expect(seen).toEqual([...NAMES.map(() => true), true, true]);
    },
  );

it("a lock is taken and given back in a module without anything else installed", async () => {
  const seen = await evaluate(
    process.execPath,
    "module",
    `import { createLockManager } from "ringfence";
     import { memoryDriver } from "ringfence/memory";
     const locks = createLockManager(memoryDriver());
     const state = await locks.request("orders/7", (lease) => lease.state);
     await locks.close();
     console.log(JSON.stringify(state));`,
  );
  expect(seen).toBe("held");
});

it("importing the main entry loads core and runtime only", async () => {
  // Module hooks run in a thread of their own, so they report by a file.
  const hooks = `import { appendFileSync } from "node:fs";
    export async function load(url, context, next) {
      appendFileSync(${JSON.stringify(join(home, "loaded"))}, url + "\\n");
      return await next(url, context);
    }`;
  writeFileSync(join(home, "hooks.mjs"), hooks);
  writeFileSync(
    join(home, "register.mjs"),
    'import { register } from "node:module";\nregister("./hooks.mjs", import.meta.url);\n',
  );
  writeFileSync(join(home, "main.mjs"), 'import "ringfence";\n');
  await must(process.execPath, ["--import", "./register.mjs", "main.mjs"], home);
  const loaded = readFileSync(join(home, "loaded"), "utf8").trim().split("\n");
  const ours = loaded.filter((url) => url.includes("/ringfence/dist/"));
  expect(ours.length).toBeGreaterThan(10);
  const other = loaded.filter(
    (url) => !/^node:|\/ringfence\/dist\/(index\.js$|core\/|runtime\/)|\/main\.mjs$/.test(url),
  );
  expect(other).toEqual([]);
});

it("the installed command says its version", async () => {
  const { stdout } = await must(join(home, "node_modules/.bin/ringfence"), ["--version"], home);
  expect(stdout.trim()).toBe(manifest().version);
});

it.each(["nodenext", "bundler"])(
  "its types compile in a strict project with an old library, resolved as %s",
  async (resolution) => {
    const folder = join(home, resolution);
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      join(folder, "use.ts"),
      `${NAMES.map((name, i) => `import * as m${i} from "${name}";`).join("\n")}
export const all = [${NAMES.map((_, i) => `m${i}`).join(", ")}];\n`,
    );
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: {
          target: "ES2022",
          lib: ["ES2022"],
          types: ["node"],
          typeRoots: [join(ROOT, "node_modules/@types")],
          module: resolution === "nodenext" ? "nodenext" : "esnext",
          moduleResolution: resolution,
          strict: true,
          exactOptionalPropertyTypes: true,
          skipLibCheck: false,
          noEmit: true,
        },
      }),
    );
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    await must(process.execPath, [tsc, "-p", folder], home);
  },
  // Checks all of Node's own types too: slow on a busy machine.
  120_000,
);
