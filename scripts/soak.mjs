// `npm run soak -- ITEM`: the same tests at the size that takes minutes. Without an item: the list.
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fail, root, say } from "./host.mjs";
import { runTests } from "./vitest.mjs";

/** Test files that have a larger size: they read RINGFENCE_SOAK, themselves or through test/fixtures/soak.ts. */
function items() {
  return readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts") && !file.includes("node_modules"))
    .map((file) => ({ file, text: readFileSync(join(root, "test", file), "utf8") }))
    .filter(({ text }) => /RINGFENCE_SOAK|fixtures\/soak/.test(text))
    .map(({ file, text }) => ({
      file: join("test", file),
      item: basename(file, ".test.ts"),
      tests: [...text.matchAll(/^\s*(?:it|test)\(\s*(["'`])(.+?)\1/gm)].map(([, , name]) => name),
    }))
    .sort((a, b) => (a.file < b.file ? -1 : 1));
}

const [item, ...more] = process.argv.slice(2);
if (item === undefined) {
  say("npm run soak -- ITEM, where ITEM is one of these files, or words of a test's name:");
  for (const { file, item: name, tests } of items())
    process.stdout.write(`${name}  (${file})\n${tests.map((test) => `    ${test}\n`).join("")}`);
} else {
  const files = items().filter((one) => one.item === item || one.file === item);
  const chosen =
    files.length > 0
      ? files.map(({ file }) => file)
      : [...items().map(({ file }) => file), "-t", item];
  process.exitCode = await runTests([...chosen, ...more], { RINGFENCE_SOAK: "1" }).catch(fail);
}
