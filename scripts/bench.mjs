// `npm run bench -- NAME`: one of bench/*.ts, against the built package. Without a name: the list.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fail, root, run, say } from "./host.mjs";
import { installNpm } from "./servers.mjs";
import { setup } from "./setup.mjs";

/** These measure the lab, which ships within the command's bundle only: tsx would add a call to every closure of it. */
const BUNDLED = ["sim", "checkers"];

const [name, ...args] = process.argv.slice(2);
const file = join(root, "bench", `${name}.ts`);
if (name === undefined || !existsSync(file)) {
  const names = readdirSync(join(root, "bench"))
    .filter((entry) => entry.endsWith(".ts") && entry !== "harness.ts")
    .map((entry) => entry.replace(/\.ts$/, ""));
  say(`npm run bench -- NAME, where NAME is one of ${names.join(", ")}`);
  process.exitCode = 64;
} else {
  await setup().catch(fail);
  if (name === "redis") await installNpm("bench/peers", "the other locks").catch(fail);
  process.exitCode = await (BUNDLED.includes(name) ? bundled() : built()).catch(fail);
}

/** This tsconfig has no `paths`: the benchmarks import the built package, as its users do. */
async function built() {
  const tsx = join(root, "node_modules/tsx/dist/cli.mjs");
  const words = [tsx, "--tsconfig", "tsconfig.base.json", "--expose-gc", file, ...args];
  return run([process.execPath, ...words], { stdout: 1 });
}

async function bundled() {
  const { build } = await import("vite");
  mkdirSync(join(root, ".cache"), { recursive: true });
  const outDir = mkdtempSync(join(root, ".cache", "bench-"));
  const output = { entryFileNames: "bench.mjs" };
  const how = { ssr: file, target: "node20", outDir, minify: false, rolldownOptions: { output } };
  await build({ configFile: false, logLevel: "error", root, build: how });
  try {
    return await run([process.execPath, "--expose-gc", join(outDir, "bench.mjs"), ...args], {
      stdout: 1,
    });
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
}
