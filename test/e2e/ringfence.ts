import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

/** The built command: what users run. */
export const MAIN: string = join(ROOT, "dist/cli/main.cjs");

/** Builds what these tests run, where it is out of date. Several files at once share one build. */
export function buildFirst(): void {
  beforeAll(() => {
    const script = `
      import { build, isBuilt, LOCK } from "./scripts/build.mjs";
      import { locked } from "./scripts/setup-lock.mjs";
      if (!isBuilt()) await locked(LOCK, async () => { if (!isBuilt()) await build(); });`;
    execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: ROOT });
  }, 120_000);
}

/** A folder of its own for one test file, and the environment that keeps the command inside it. */
export interface Place {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  /** A path in the folder. */
  readonly file: (name: string) => string;
  /** What a file holds; empty while there is none. */
  readonly read: (name: string) => string;
}

/** Makes the folder before the tests of a file, and removes it after them. */
export function place(): Place {
  const folder = mkdtempSync(join(tmpdir(), "ringfence-e2e-"));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const inherited = Object.entries(process.env).filter(
    ([key]) => !/^(RINGFENCE_|NO_COLOR|FORCE_COLOR|NODE_OPTIONS|VITEST)/.test(key),
  );
  return {
    folder,
    env: { ...Object.fromEntries(inherited), XDG_STATE_HOME: folder },
    file: (name) => join(folder, name),
    read: (name) => {
      const path = join(folder, name);
      return existsSync(path) ? readFileSync(path, "utf8") : "";
    },
  };
}

/** How a command ended, and what it printed. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly tookMs: number;
}

/** A command that runs. */
export interface Running {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly ended: Promise<Ended>;
  stdout(): string;
  stderr(): string;
}

const running = new Set<ChildProcess>();
afterAll(() => {
  // A test that failed half-way may leave some, also stopped ones.
  for (const child of running) child.kill("SIGKILL");
});

/** Starts `ringfence` with these arguments. With `hold` its stdin stays open. */
export function start(
  args: readonly string[],
  options: SpawnOptions & { readonly input?: string; readonly hold?: boolean } = {},
): Running {
  const startedMs = performance.now();
  const { input, hold = false, ...rest } = options;
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: "pipe", ...rest });
  running.add(child);
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin?.on("error", () => undefined);
  if (!hold) child.stdin?.end(input ?? "");
  const ended = new Promise<Ended>((done, fail) => {
    child.on("error", fail);
    child.on("close", (code, signal) => {
      running.delete(child);
      done({ code, signal, stdout, stderr, tookMs: performance.now() - startedMs });
    });
  });
  return {
    child,
    pid: child.pid ?? 0,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
  };
}

/** Runs `ringfence` to its end. */
export async function ringfence(
  args: readonly string[],
  options: SpawnOptions & { readonly input?: string } = {},
): Promise<Ended> {
  return await start(args, options).ended;
}

/** Waits until something is true; generous, since other tests run at the same time. */
export async function until(what: () => boolean, timeoutMs = 30_000): Promise<void> {
  const startedMs = performance.now();
  while (!what()) {
    if (performance.now() - startedMs > timeoutMs)
      throw new Error(`Not so within ${timeoutMs} ms: ${what.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Whether a process runs: a zombie does not. */
export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
