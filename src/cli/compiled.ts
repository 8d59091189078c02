import { readFileSync } from "node:fs";
import { createRequire, Module } from "node:module";
import { dirname } from "node:path";
import { Script } from "node:vm";

/** What a CommonJS file finds, in the order in which it is handed over. */
const NAMES = ["exports", "require", "module", "__filename", "__dirname"];

/** A file that was loaded. */
interface Loaded {
  readonly exports: unknown;
  /** What V8 has compiled of it so far, as it is put beside the file. */
  code(): Uint8Array;
}

/** Where the compiled code of a file is. */
export function codeOf(path: string): string {
  return `${path}.code`;
}

/**
 * Loads a CommonJS file in ASCII as `require` does, with the compiled code beside it: to compile takes a third of the
 * time that a short command takes. V8 refuses code of another version or of other flags, and then compiles the file as
 * ever.
 */
export function loadCompiled(path: string): Loaded {
  const cachedData = codeBeside(path);
  const source = readFileSync(path, "latin1");
  const script = new Script(`(function (${NAMES.join(", ")}) { ${source}\n})`, {
    filename: path,
    ...(cachedData === null ? {} : { cachedData }),
  });
  const module = new Module(path);
  module.filename = path;
  const require = createRequire(path);
  // The other parts of a bundle require this one back: they must get the same.
  require.cache[path] = module;
  const run = script.runInThisContext() as (...args: readonly unknown[]) => void;
  run.call(module.exports, module.exports, require, module, path, dirname(path));
  module.loaded = true;
  return { exports: module.exports, code: () => script.createCachedData() };
}

function codeBeside(path: string): Buffer | null {
  try {
    return readFileSync(codeOf(path));
  } catch {
    // Not made, or not to be read: the file is compiled.
    return null;
  }
}
