// Makes the command of its modules: one file with all that `ringfence run` needs for a local store, since a hundred
// small ones take longer to load than Node to start; chunks for everything else. CommonJS has the faster loader.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { must, root } from "./host.mjs";

/** What is started as a process, and what the launcher loads. */
const ENTRIES = ["main", "command-line", "demo/rider", "../lab/chaos/worker"];
/** With all that they import, one file: the launcher's entry, since that is among them. */
const RUN = /src[\\/](cli[\\/](command-line|run-command)|drivers[\\/]sqlite[\\/]index)\.ts$/;

/**
 * The bundler's few helpers into the one file that needs them at once, since a file more takes a millisecond; and every
 * file in ASCII, of which V8 keeps and reads half as many bytes.
 */
const inOneFile = {
  name: "in-one-file",
  generateBundle(_options, files) {
    for (const file of Object.values(files))
      if (file.type === "chunk") file.code = inAscii(file.code);
    const run = files["command-line.cjs"];
    const helpers = files["rolldown-runtime.cjs"].code;
    const inlined = `((exports) => {\n${helpers}return exports;\n})({})`;
    const parts = run.code.split('require("./rolldown-runtime.cjs")');
    if (parts.length !== 2) throw new Error("the bundler loads its helpers in another way now");
    run.code = parts.join(inlined);
  },
};

/** With escapes, which strings, patterns and comments may have; nothing else in our code is not ASCII. */
function inAscii(code) {
  return code.replace(/[^\0-\x7f]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** Writes the command to a folder. `compiler`: where the built src/cli/compiled.ts is. */
export async function bundle(outDir, compiler) {
  // Only now: this file is read before anything is installed.
  const { build } = await import("vite");
  await build({
    root,
    configFile: false,
    plugins: [inOneFile],
    publicDir: false,
    logLevel: "warn",
    build: {
      ssr: true,
      target: "node20",
      outDir,
      emptyOutDir: true,
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries(
          ENTRIES.map((name) => [name.replace(/^.*\//, ""), join(root, "src/cli", `${name}.ts`)]),
        ),
        // The rider of the demo loads at once what the command loads on demand.
        checks: { ineffectiveDynamicImport: false },
        output: {
          format: "cjs",
          entryFileNames: "[name].cjs",
          chunkFileNames: "[name].cjs",
          dynamicImportInCjs: false,
          codeSplitting: { groups: [{ name: "command-line", test: RUN }] },
        },
      },
    },
  });
  await must([process.execPath, import.meta.filename, outDir, compiler]);
}

/** Runs a command under a lock once, and puts what V8 has compiled for it beside the file. */
async function keepCompiled(outDir, compiler) {
  const { codeOf, loadCompiled } = await import(pathToFileURL(compiler).href);
  const folder = mkdtempSync(join(tmpdir(), "ringfence-build-"));
  const path = join(outDir, "command-line.cjs");
  const { exports, code } = loadCompiled(path);
  const env = { ...process.env, RINGFENCE_STORE: `sqlite:${join(folder, "locks.db")}` };
  await exports.commandLine(["run", "build", "--", process.execPath, "-e", "0"], env);
  writeFileSync(codeOf(path), code());
  rmSync(folder, { recursive: true, force: true });
}

const [, script = "", outDir, compiler] = process.argv;
if (import.meta.url === pathToFileURL(script).href) await keepCompiled(outDir, compiler);
