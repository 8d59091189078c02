import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { command, type Ended } from "../fixtures/command.ts";
import { ensureBuilt, plainEnv, ROOT } from "./built.ts";

/** A copy of the built command, to be damaged. */
let folder: string;
let main: string;
let code: string;

beforeAll(() => {
  ensureBuilt();
  folder = mkdtempSync(join(tmpdir(), "ringfence-command-"));
  cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
  cpSync(join(ROOT, "dist/cli"), join(folder, "dist/cli"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  main = join(folder, "dist/cli/main.cjs");
  code = join(folder, "dist/cli/command-line.cjs.code");
}, 120_000);

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function run(...args: readonly string[]): Promise<Ended> {
  const env = plainEnv({ RINGFENCE_STORE: `sqlite:${join(folder, "locks.db")}` });
  return await command(process.execPath, args, { cwd: folder, env });
}

/** Prints, as the process ends, which of our files were loaded, and whether V8 took the compiled code. */
const WATCH = `
const vm = require("node:vm");
const { Script } = vm;
const taken = [];
vm.Script = class extends Script {
  constructor(source, options) {
    super(source, options);
    taken.push(this.cachedDataRejected === false);
  }
};
process.on("exit", () => {
  const own = Object.keys(require.cache).filter((path) => /dist.cli/.test(path));
  process.stdout.write(JSON.stringify({ own: own.map((path) => path.replace(/.*[\\\\/]/, "")), taken }));
});`;

async function watched(...args: readonly string[]): Promise<unknown> {
  const watch = join(folder, "watch.cjs");
  writeFileSync(watch, WATCH);
  const { stdout, stderr, code: exit } = await run("--require", watch, main, ...args);
  expect([stderr, exit]).toEqual(["", 0]);
  return JSON.parse(stdout);
}

it("`run` on a local store loads one file beside its launcher, and needs not compile it", async () => {
  const seen = await watched("run", "x", "--", process.execPath, "-e", "0");
  const own = ["main.cjs", "command-line.cjs"];
  expect(seen).toEqual({ own, taken: [true] });
});

it("runs all the same where the compiled code is damaged, of another V8, or missing", async () => {
  const plain = ["run", "x", "--", process.execPath, "-e", "0"];
  for (const damage of [
    () => {
      truncateSync(code, 1000);
    },
    () => {
      writeFileSync(code, "");
    },
    () => {
      rmSync(code);
      mkdirSync(code);
    },
    () => {
      rmSync(code, { recursive: true });
    },
  ]) {
    damage();
    const { stderr, code: exit } = await run(main, ...plain);
    expect([stderr, exit]).toEqual(["", 0]);
  }
  expect(await watched(...plain)).toMatchObject({ taken: [false] });
});
