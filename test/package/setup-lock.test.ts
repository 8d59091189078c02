import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { command } from "../fixtures/command.ts";
import { size } from "../fixtures/soak.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ringfence-lock-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const LOCK = new URL("../../scripts/setup-lock.mjs", import.meta.url).href;

/** Adds one to a file `rounds` times, in two steps that only a lock holds together; every third one dies inside. */
const WORKER = `
import { readFileSync, writeFileSync } from "node:fs";
import { locked } from ${JSON.stringify(LOCK)};
const [lock, counter, rounds, dies] = process.argv.slice(2);
for (let i = 0; i < Number(rounds); i += 1)
  await locked(lock, async () => {
    const seen = Number(readFileSync(counter, "utf8"));
    await new Promise((done) => setTimeout(done, 1));
    writeFileSync(counter, String(seen + 1));
    if (dies === "yes") process.kill(process.pid, "SIGKILL");
  });
`;

it("keeps processes apart, also when holders are killed", async () => {
  const [counter, worker] = [join(folder, "counter"), join(folder, "worker.mjs")];
  writeFileSync(counter, "0");
  writeFileSync(worker, WORKER);
  const rounds = size(10, 300);
  const run = async (dies: string): Promise<number | null> =>
    (
      await command(process.execPath, [
        worker,
        resolve(folder, "lock"),
        counter,
        String(rounds),
        dies,
      ])
    ).code;
  const codes = await Promise.all(["no", "yes", "no", "yes", "no", "yes"].map(run));
  expect(codes.filter((code) => code === 0)).toHaveLength(3);
  expect(Number(readFileSync(counter, "utf8"))).toBe(3 * rounds + 3);
});
