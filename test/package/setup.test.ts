import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { command, type Ended } from "../fixtures/command.ts";

/** A project with our scripts, a compiler of ten lines and a command that says what it sees. */
let folder: string;
let home: string;

const COMPILER = `#!/usr/bin/env node
const { cpSync, mkdirSync, readdirSync, appendFileSync, existsSync } = require("node:fs");
const { join } = require("node:path");
appendFileSync("compiled.log", "x");
if (existsSync("slow")) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60000);
const out = process.argv[process.argv.indexOf("--outDir") + 1];
for (const file of readdirSync("src", { recursive: true }).map(String)) {
  if (!file.endsWith(".ts")) continue;
  mkdirSync(join(out, file, ".."), { recursive: true });
  cpSync(join("src", file), join(out, file.replace(/\\.ts$/, ".js")));
}
process.stdout.write("a compiler's words\\n");
`;
/** In place of the bundler: the command is the compiled file, which our own one would be made of. */
const BUNDLER = `import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
export async function bundle(outDir, compiler) {
  mkdirSync(outDir);
  cpSync(join(compiler, "../main.js"), join(outDir, "main.cjs"));
  for (const name of ["command-line.cjs", "command-line.cjs.code", "rider.cjs", "worker.cjs"])
    writeFileSync(join(outDir, name), "");
}
`;
const MAIN = `const { readFileSync } = require("node:fs");
process.stdout.write(JSON.stringify({
  cwd: process.cwd(), argv: process.argv.slice(2), input: readFileSync(0, "utf8"), env: process.env.NODE_ENV,
}));
`;

beforeAll(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "ringfence-setup-")));
  folder = join(home, "project");
  mkdirSync(join(folder, "src/cli"), { recursive: true });
  mkdirSync(join(folder, "compiler/bin"), { recursive: true });
  cpSync(resolve(import.meta.dirname, "../../scripts"), join(folder, "scripts"), {
    recursive: true,
  });
  const write = (path: string, value: unknown): void => {
    writeFileSync(
      join(folder, path),
      typeof value === "string" ? value : JSON.stringify(value, null, 2),
    );
  };
  write("compiler/package.json", { name: "typescript", version: "1.0.0" });
  write("compiler/bin/tsc", COMPILER);
  write("scripts/bundle.mjs", BUNDLER);
  write("src/cli/main.ts", MAIN);
  write("tsconfig.base.json", {});
  write("tsconfig.build.json", {});
  write("package.json", {
    name: "project",
    version: "1.0.0",
    type: "module",
    scripts: { start: "exec node scripts/start.mjs" },
    devDependencies: { typescript: "file:compiler" },
  });
  execFileSync("npm", ["install", "--package-lock-only", "--no-audit", "--no-fund"], {
    cwd: folder,
    stdio: "ignore",
    env: environment(),
  });
});

afterAll(() => {
  rmSync(home, { recursive: true, force: true });
});

function environment(extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([key]) => !/^(npm_|INIT_CWD|NODE_ENV)/.test(key));
  return { ...Object.fromEntries(own), ...extra };
}

async function start(
  args: readonly string[] = [],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; input?: string } = {},
): Promise<Ended> {
  const { env = {}, cwd = folder, input = "" } = options;
  const words = ["start", "-s", "--prefix", folder, "--", ...args];
  return await command("npm", words, { cwd, input, env: environment(env) });
}

const compiled = (): number => {
  const log = join(folder, "compiled.log");
  return existsSync(log) ? readFileSync(log, "utf8").length : 0;
};
const fresh = (): void => {
  for (const name of ["node_modules", "dist", ".cache", "compiled.log", "slow"])
    rmSync(join(folder, name), { recursive: true, force: true });
};

it("sets up from nothing, even for production, and keeps stdout and stdin for the command", async () => {
  fresh();
  const { code, stdout, stderr } = await start(["a", "--b"], {
    input: "typed",
    env: { NODE_ENV: "production", npm_config_omit: "dev" },
    cwd: home,
  });
  expect(stderr).toContain("installing npm packages");
  expect(stderr).toContain("a compiler's words");
  expect(JSON.parse(stdout)).toEqual({
    cwd: home,
    argv: ["a", "--b"],
    input: "typed",
    env: "production",
  });
  expect(code).toBe(0);
});

it("the second time there is nothing to do and nothing to say", async () => {
  await start();
  const before = compiled();
  const { stderr } = await start();
  expect(stderr).toBe("");
  expect(compiled()).toBe(before);
});

it("a changed source is built again, and what it left is gone", async () => {
  await start();
  writeFileSync(join(folder, "src/extra.ts"), "export const x = 1;\n");
  await start();
  expect(existsSync(join(folder, "dist/extra.js"))).toBe(true);
  rmSync(join(folder, "src/extra.ts"));
  await start();
  expect(existsSync(join(folder, "dist/extra.js"))).toBe(false);
});

it("mends a half-built dist and the rest of a build that was killed", async () => {
  await start();
  rmSync(join(folder, "dist/cli"), { recursive: true });
  mkdirSync(join(folder, "dist.tmp-1"));
  expect((await start()).code).toBe(0);
  expect(readdirSync(folder).filter((name) => name.startsWith("dist.tmp"))).toEqual([]);
});

it("mends a half-installed node_modules, and drops a link instead of emptying what it points to", async () => {
  await start();
  rmSync(join(folder, "node_modules/typescript"), { recursive: true, force: true });
  expect((await start()).code).toBe(0);
  const elsewhere = join(home, "elsewhere");
  mkdirSync(elsewhere, { recursive: true });
  writeFileSync(join(elsewhere, "precious"), "");
  rmSync(join(folder, "node_modules"), { recursive: true });
  symlinkSync(elsewhere, join(folder, "node_modules"));
  expect((await start()).code).toBe(0);
  expect(readdirSync(elsewhere)).toEqual(["precious"]);
});

it("several starts at once set up once", async () => {
  fresh();
  const ends = await Promise.all([start(), start(), start()]);
  expect(ends.map(({ code }) => code)).toEqual([0, 0, 0]);
  expect(ends.filter(({ stderr }) => stderr.includes("installing"))).toHaveLength(1);
  expect(compiled()).toBe(1);
});

it("a signal ends the step that runs, and the next start is not held up by its lock", async () => {
  await start();
  writeFileSync(join(folder, "slow"), "");
  rmSync(join(folder, "dist"), { recursive: true });
  const before = compiled();
  const killed = await command(process.execPath, [join(folder, "scripts/start.mjs")], {
    cwd: folder,
    env: environment(),
    started: (child) => {
      const poll = setInterval(() => {
        if (compiled() === before) return;
        clearInterval(poll);
        child.kill("SIGTERM");
      }, 20);
    },
  });
  expect(killed.signal).toBe("SIGTERM");
  rmSync(join(folder, "slow"));
  expect((await start()).code).toBe(0);
});

it("the lock of a process that died does not hold anybody up, whatever has its pid now", async () => {
  await start();
  rmSync(join(folder, "dist"), { recursive: true });
  const lock = join(folder, ".cache/setup");
  const child = spawn(process.execPath, ["-e", ""], { stdio: "ignore" });
  await new Promise((done) => child.on("exit", done));
  const owners = [String(child.pid)];
  // our own pid, with a start time that is not ours: only where the system tells start times
  if (process.platform === "linux") owners.push(`${process.pid} 1`);
  for (const owner of owners) {
    rmSync(join(folder, "dist"), { recursive: true, force: true });
    rmSync(lock, { recursive: true, force: true });
    mkdirSync(lock, { recursive: true });
    writeFileSync(join(lock, "7"), owner);
    expect((await start()).stderr).not.toContain("another set-up");
    expect(readdirSync(lock)).toEqual(["8"]);
  }
});

it("says in one sentence what failed, and does not start the command", async () => {
  await start();
  rmSync(join(folder, "dist"), { recursive: true });
  const tsc = join(folder, "compiler/bin/tsc");
  writeFileSync(tsc, "process.exit(3);");
  const { code, stdout, stderr } = await start();
  writeFileSync(tsc, COMPILER);
  expect(code).toBe(78);
  expect(stdout).toBe("");
  expect(stderr).toMatch(/ringfence: `.*tsc.*` ended with 3\n$/);
});
