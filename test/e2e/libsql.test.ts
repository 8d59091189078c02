import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { command } from "../fixtures/command.ts";
import { buildFirst, MAIN, place } from "./ringfence.ts";

buildFirst();
const { env, file, read } = place();
const MODULES = resolve(import.meta.dirname, "../../node_modules");
/** Then nothing below is loaded. */
const BUILT_IN = process.getBuiltinModule("node:sqlite") !== undefined;

beforeAll(() => {
  writeFileSync(
    file("loaded.cjs"),
    `const { dlopen } = process;
    const native = [];
    process.dlopen = (module, path, ...flags) => {
      native.push(path);
      return dlopen.call(process, module, path, ...flags);
    };
    process.on("exit", () => {
      const code = Object.keys(require.cache).filter((path) => /libsql.*\\.js$/.test(path));
      require("node:fs").writeFileSync(process.env.LOADED, [...code, ...native].join("\\n"));
    });`,
  );
});

/** Runs the command where it was installed with these of the packages, and says what it loaded of libsql. */
async function installedWith(name: string, packages: readonly string[]) {
  const home = file(name);
  mkdirSync(join(home, "node_modules"), { recursive: true });
  cpSync(resolve(MAIN, ".."), join(home, "dist/cli"), { recursive: true });
  for (const each of packages) symlinkSync(join(MODULES, each), join(home, "node_modules", each));
  const words = ["--require", file("loaded.cjs"), join(home, "dist/cli/main.cjs")];
  const ended = await command(process.execPath, [...words, "run", "x", "--", "true"], {
    env: { ...env, RINGFENCE_STORE: `sqlite:${join(home, "locks.db")}`, LOADED: `${home}.loaded` },
  });
  return { ...ended, loaded: read(`${name}.loaded`) };
}

it("runs with the native part of libsql alone, as npm installs both", async () => {
  const { code, stderr, loaded } = await installedWith("npm", ["libsql", "@libsql"]);
  expect([code, stderr]).toEqual([0, ""]);
  if (BUILT_IN) expect(loaded).toBe("");
  else expect(loaded).toMatch(/^[^\n]*@libsql[^\n]*index\.node$/);
});

it("runs through libsql's own entry where only that is to be found from the command", async () => {
  const { code, stderr, loaded } = await installedWith("strict", ["libsql"]);
  expect([code, stderr]).toEqual([0, ""]);
  if (BUILT_IN) expect(loaded).toBe("");
  else expect(loaded).toMatch(/libsql\/index\.js$/m);
});

it("says what to install where there is no SQLite at all", async () => {
  const { code, stderr, loaded } = await installedWith("nothing", []);
  expect(loaded).toBe("");
  if (BUILT_IN) expect([code, stderr]).toEqual([0, ""]);
  else {
    expect(code).toBe(78);
    expect(stderr).toMatch(/no built-in SQLite and the package "libsql" cannot be loaded: run/);
  }
});
