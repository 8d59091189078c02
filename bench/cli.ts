// `ringfence run x -- true` as whole processes, against `node -e 0`.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compare, now } from "./harness.ts";

const folder = mkdtempSync(join(tmpdir(), "ringfence-bench-"));
const main = join(import.meta.dirname, "../dist/cli/main.cjs");
// Without what npm and tsx put there: a child's node would load tsx as well.
const { PATH, HOME } = process.env;
const env = { PATH, HOME, RINGFENCE_STORE: `sqlite:${join(folder, "locks.db")}` };

/** Milliseconds of the whole process, by the clock on the wall. */
async function time(args: readonly string[]): Promise<number> {
  const started = now();
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}: ${stderr}`);
  return now() - started;
}

await compare(
  {
    title: "the command: `ringfence run x -- true`, whole processes",
    ours: "ringfence run x -- true",
    theirs: "node -e 0",
    unit: "ms",
    target: "ratio at most 2.2",
    pairs: 25,
    digits: 1,
  },
  {
    ours: async () => await time([main, "run", "x", "--", "true"]),
    theirs: async () => await time(["-e", "0"]),
  },
);
rmSync(folder, { recursive: true, force: true });
