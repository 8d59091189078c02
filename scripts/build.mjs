// Builds dist/ in a folder beside it and swaps the two, so that nobody ever imports half a build.
import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bundle } from "./bundle.mjs";
import { fail, hashOf, must, read, root } from "./host.mjs";
import { locked } from "./setup-lock.mjs";

const STAMP = "dist/.ringfence";
/** No user imports these: they are in the package as the bundled command. */
const BUNDLED = ["cli", "lab"];
/** What is built of the bundled sources. */
const COMMAND = [
  "main.cjs",
  "command-line.cjs",
  "command-line.cjs.code",
  "rider.cjs",
  "worker.cjs",
];

function sources() {
  return readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .sort();
}

function wanted(files) {
  const settings = ["package-lock.json", "tsconfig.base.json", "tsconfig.build.json"];
  settings.push("scripts/build.mjs", "scripts/bundle.mjs");
  return hashOf([...settings, ...files.map((file) => `src/${file}`)]);
}

/** Whether dist/ is the build of these sources, and whole. */
export function isBuilt() {
  const files = sources();
  const library = files.filter((file) => !BUNDLED.includes(file.split("/")[0]));
  const made = [
    ...library.map((file) => file.replace(/\.ts$/, ".js")),
    ...COMMAND.map((file) => `cli/${file}`),
  ];
  return (
    read(STAMP) === wanted(files) && made.every((file) => existsSync(join(root, "dist", file)))
  );
}

export async function build() {
  const want = wanted(sources());
  const next = join(root, `dist.tmp-${process.pid}`);
  const last = `${next}-last`;
  // Whoever builds has the lock: what lies around is of a build that was killed.
  for (const name of readdirSync(root))
    if (name.startsWith("dist.tmp-")) rmSync(join(root, name), { recursive: true, force: true });
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  await must([process.execPath, tsc, "-p", "tsconfig.build.json", "--outDir", next]);
  const command = join(next, "command");
  await bundle(command, join(next, "cli/compiled.js"));
  for (const layer of BUNDLED) rmSync(join(next, layer), { recursive: true, force: true });
  renameSync(command, join(next, "cli"));
  writeFileSync(join(next, ".ringfence"), want);
  if (existsSync(join(root, "dist"))) renameSync(join(root, "dist"), last);
  renameSync(next, join(root, "dist"));
  rmSync(last, { recursive: true, force: true });
}

/** Where every process that sets something up in this folder meets. */
export const LOCK = join(root, ".cache/setup");

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href)
  await locked(LOCK, async () => (isBuilt() ? undefined : await build())).catch(fail);
