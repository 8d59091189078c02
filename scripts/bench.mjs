// `npm run bench -- NAME`: one of bench/*.ts, against the built package. Without a name: the list.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fail, root, run, say } from "./host.mjs";
import { installNpm } from "./servers.mjs";
import { setup } from "./setup.mjs";

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
  // This tsconfig has no `paths`: the benchmarks import the built package, as its users do. tsx would add a call to
  // every closure of the sources.
  const tsx = join(root, "node_modules/tsx/dist/cli.mjs");
  const words = [tsx, "--tsconfig", "tsconfig.base.json", "--expose-gc", file, ...args];
  process.exitCode = await run([process.execPath, ...words], { stdout: 1 }).catch(fail);
}
