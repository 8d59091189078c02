import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { buildFirst, place, start, until } from "./ringfence.ts";

const ROOT = resolve(import.meta.dirname, "../..");
buildFirst();
const { env, file, read } = place();

/** A guarded job under the lock; it writes when `go` is there. */
function job(go: string): ReturnType<typeof start> {
  const child = join(ROOT, "test/fixtures/guarded-child.mjs");
  const args = [join(ROOT, "dist"), file("data.db"), file(go), file("log")];
  const command = [process.execPath, child, ...args];
  return start(["run", "order", "--ttl", "1s", "--grace", "300ms", "--", ...command], { env });
}

/** The children of a process, by the kernel's list. */
function childrenOf(pid: number): number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return list === "" ? [] : list.split(" ").map(Number);
}

const log = (): string[] =>
  read("log")
    .split("\n")
    .filter((line) => line !== "");

it("a holder that was stopped past its lease: child ended, exit 79, its guarded write refused, nothing else disturbed", async () => {
  const first = job("first");
  await until(() => log().length === 1);
  // The whole host sleeps, as far as the first holder can tell: the wrapper, and the session of its child.
  const [childPid = 0] = childrenOf(first.pid);
  process.kill(first.pid, "SIGSTOP");
  process.kill(-childPid, "SIGSTOP");
  const second = job("second");
  await until(() => log().length === 2, 20_000);
  writeFileSync(file("first"), "");
  process.kill(-childPid, "SIGCONT");
  await until(() => log().length === 3);
  process.kill(first.pid, "SIGCONT");
  expect((await first.ended).code).toBe(79);
  writeFileSync(file("second"), "");
  expect((await second.ended).code).toBe(0);
  const [older = "", newer = ""] = log().map((line) => line.split(" ")[0] ?? "");
  expect(BigInt(newer)).toBeGreaterThan(BigInt(older));
  expect(log()).toEqual([
    `${older} claimed`,
    `${newer} claimed`,
    `${older} refused ERR_STALE_TOKEN`,
    `${newer} wrote`,
  ]);
}, 120_000);
