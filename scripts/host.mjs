// What the set-up scripts share. Plain JavaScript on purpose: it runs before anything is installed.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Our own words go to stderr: stdout belongs to the command. */
export function say(text) {
  process.stderr.write(`ringfence: ${text}\n`);
}

/** Ends the process with one sentence instead of a stack trace. */
export function fail(error) {
  say(error instanceof Error ? error.message : String(error));
  process.exit(78);
}

/** The text of a file below the root, empty when there is none. */
export function read(path) {
  try {
    return readFileSync(join(root, path), "utf8");
  } catch {
    return "";
  }
}

export function hashOf(paths) {
  const hash = createHash("sha256");
  for (const path of paths) hash.update(path).update("\0").update(read(path)).update("\0");
  return hash.digest("hex");
}

/**
 * npm hands its own settings down as npm_config_*, and a shell its NODE_ENV: `npm start --omit=dev` or
 * NODE_ENV=production must not starve the build, nor change what a test's own npm call does.
 */
export function cleanEnv() {
  const keep = /^npm_config_(registry|cache|proxy|https_proxy|noproxy|cafile|userconfig|nodedir)$/i;
  const drop = /^(NODE_ENV$|INIT_CWD$|npm_)/i;
  return Object.fromEntries(
    Object.entries(process.env).filter(([key]) => keep.test(key) || !drop.test(key)),
  );
}

/** The npm that called us, or the one on the PATH. */
export function npm() {
  const path = process.env.npm_execpath ?? "";
  return /npm-cli\.c?js$/.test(path) ? [process.execPath, path] : ["npm"];
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

/**
 * Runs a child in the root folder to its end and returns its exit code. Its stdin is empty. A signal to us goes on to
 * it, and ends us once it has ended: nothing goes on behind our back.
 */
export async function run([command, ...args], { env = cleanEnv(), stdout = 2, cwd = root } = {}) {
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", stdout, 2] });
  let received = null;
  const forward = (signal) => {
    received = signal;
    // A terminal has sent its INT to the child as well: a second one would end it without a clean-up.
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  };
  for (const signal of SIGNALS) process.on(signal, forward);
  try {
    return await new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
    });
  } finally {
    for (const signal of SIGNALS) process.off(signal, forward);
    // The default action is back in place now. The set-up lock needs no clean-up: a dead owner frees it.
    if (received !== null) process.kill(process.pid, received);
  }
}

/** Like `run`, and throws unless the child succeeded. */
export async function must(words, options) {
  const code = await run(words, options);
  if (code !== 0) throw new Error(`\`${words.join(" ")}\` ended with ${code}`);
}
