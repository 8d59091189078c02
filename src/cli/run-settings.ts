import { basename } from "node:path";
import { parseDuration, YEAR_MS } from "../core/duration.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { type Grace, planGrace } from "./grace.ts";
import type { Level } from "./messages.ts";
import { type ChosenStore, chooseNamespace, chooseStore, type StoreOptions } from "./store.ts";
import { wholeNumber } from "./whole-number.ts";

/** The options of `run` as they are typed. */
export interface RunOptions extends StoreOptions {
  /** A duration, or `false` from `--no-wait`. */
  readonly wait?: string | boolean;
  readonly ttl?: string;
  readonly maxHold?: string;
  readonly lockDelay?: string;
  readonly shared?: boolean;
  readonly permits?: string;
  readonly once?: string;
  readonly at?: string;
  readonly retryOnError?: boolean;
  readonly label?: string;
  readonly grace?: string;
  readonly foreground?: boolean;
  readonly watchFd?: string;
  readonly conflictExitCode?: string;
  readonly verbose?: boolean;
  readonly quiet?: boolean;
}

/** The terms of `--once`. */
interface OnceSettings {
  readonly keepMs: number;
  readonly at: string | undefined;
  readonly retryOnError: boolean;
}

/** What `run` was told, checked. */
export interface RunSettings {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly store: ChosenStore;
  readonly namespace: string;
  /** Milliseconds to wait; `null` for ever, 0 for one attempt. */
  readonly waitMs: number | null;
  readonly ttlMs: number;
  readonly maxHoldMs: number | undefined;
  readonly lockDelayMs: number;
  readonly mode: "exclusive" | "shared" | "permits";
  readonly permits: number;
  readonly once: OnceSettings | null;
  readonly label: string;
  readonly grace: Grace;
  readonly foreground: boolean;
  readonly watchFd: number | undefined;
  readonly busyCode: number;
  readonly level: Level;
}

const DEFAULT_TTL_MS = 30_000;
const MAX_LOCK_DELAY_MS = 60_000;
const MAX_FD = 255;
const MAX_PERMITS = 1_000_000;

/**
 * Checks the options of `run`, and the store last, since it makes a folder.
 * @throws ExitError 64, InvalidArgumentError
 */
export function runSettings(
  name: string,
  words: readonly string[],
  options: RunOptions,
  env: NodeJS.ProcessEnv,
): RunSettings {
  const [command, ...args] = words;
  if (command === undefined)
    throw usage(`what should run under the lock? ringfence run ${name} -- <command> [args…]`);
  refuseContradictions(options);
  const ttlMs = duration("--ttl", options.ttl, 50, YEAR_MS) ?? DEFAULT_TTL_MS;
  const lockDelayMs = duration("--lock-delay", options.lockDelay, 0, MAX_LOCK_DELAY_MS) ?? 0;
  const graceMs = duration("--grace", options.grace, 0, YEAR_MS);
  return {
    name,
    command,
    args,
    waitMs: waitOf(options.wait),
    ttlMs,
    maxHoldMs: duration("--max-hold", options.maxHold, 50, YEAR_MS),
    lockDelayMs,
    mode:
      options.shared === true ? "shared" : options.permits === undefined ? "exclusive" : "permits",
    permits: whole("--permits", options.permits, 1, MAX_PERMITS) ?? 1,
    once: onceOf(options),
    label: options.label ?? basename(command),
    grace: planGrace({ ttlMs, graceMs, lockDelayMs }),
    foreground: options.foreground === true,
    watchFd: whole("--watch-fd", options.watchFd, 3, MAX_FD),
    busyCode: whole("--conflict-exit-code", options.conflictExitCode, 0, 255) ?? EXIT.busy,
    level: levelOf(options),
    store: chooseStore(options, env),
    namespace: chooseNamespace(options, env),
  };
}

function refuseContradictions(options: RunOptions): void {
  const exclusive: readonly (readonly [a: boolean, b: boolean, what: string])[] = [
    [options.shared === true, options.permits !== undefined, "--shared and --permits"],
    [options.verbose === true, options.quiet === true, "--verbose and --quiet"],
    [
      options.once !== undefined,
      typeof options.wait === "string",
      "--once, which never waits, and --wait",
    ],
    [options.once !== undefined, options.shared === true, "--once and --shared"],
    [options.once !== undefined, options.permits !== undefined, "--once and --permits"],
  ];
  for (const [a, b, what] of exclusive) if (a && b) throw usage(`${what} exclude each other`);
  if (options.once === undefined && options.at !== undefined) throw usage("--at needs --once");
  if (options.once === undefined && options.retryOnError === true)
    throw usage("--retry-on-error needs --once");
}

/** `-E 0` says that a busy lock is nothing to speak of. */
function levelOf(options: RunOptions): Level {
  if (options.verbose === true) return "verbose";
  return options.quiet === true || options.conflictExitCode === "0" ? "quiet" : "normal";
}

function waitOf(wait: string | boolean | undefined): number | null {
  if (wait === false) return 0;
  if (typeof wait !== "string" || wait === "forever") return null;
  return duration("--wait", wait, 0, YEAR_MS) ?? null;
}

function onceOf(options: RunOptions): OnceSettings | null {
  const keepMs = duration("--once", options.once, 1, YEAR_MS);
  if (keepMs === undefined) return null;
  return { keepMs, at: options.at, retryOnError: options.retryOnError === true };
}

/** Durations of the command line are text: `0` is the one number that needs no unit. */
function duration(
  option: string,
  text: string | undefined,
  min: number,
  max: number,
): number | undefined {
  if (text === undefined) return undefined;
  return parseDuration(option, text === "0" ? 0 : text, { min, max });
}

function whole(
  option: string,
  text: string | undefined,
  min: number,
  max: number,
): number | undefined {
  return text === undefined ? undefined : wholeNumber(option, text, { min, max });
}

function usage(message: string): ExitError {
  return new ExitError(EXIT.usage, message);
}
