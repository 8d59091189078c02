import { mkdirSync, readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { connect } from "../connect/index.ts";
import { hasSecret, redactUrl } from "../connect/redact.ts";
import type { Driver } from "../core/driver.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import type { Messages } from "./messages.ts";

/** What every command that uses a store takes. */
export interface StoreOptions {
  readonly store?: string;
  readonly storeFile?: string;
  readonly namespace?: string;
}

/** A store URL, and who said so. */
export interface ChosenStore {
  readonly url: string;
  readonly from: "--store" | "--store-file" | "RINGFENCE_STORE" | "default";
}

/**
 * Which store is meant: a flag, else RINGFENCE_STORE, else a SQLite file in the user's state folder, which is made.
 * @throws ExitError 64 for two flags at once, 78 when there is no place for the default store
 */
export function chooseStore(options: StoreOptions, env: NodeJS.ProcessEnv): ChosenStore {
  if (options.store !== undefined && options.storeFile !== undefined)
    throw new ExitError(EXIT.usage, "--store and --store-file exclude each other: give one");
  if (options.store !== undefined) return { url: options.store, from: "--store" };
  if (options.storeFile !== undefined)
    return { url: readStoreFile(options.storeFile), from: "--store-file" };
  const given = env["RINGFENCE_STORE"] ?? "";
  if (given !== "") return { url: given, from: "RINGFENCE_STORE" };
  return { url: `sqlite:${encodePath(defaultFile(env))}`, from: "default" };
}

/** The namespace: flag, else environment, else the manager's default. */
export function chooseNamespace(options: StoreOptions, env: NodeJS.ProcessEnv): string {
  const given = env["RINGFENCE_NAMESPACE"] ?? "";
  return options.namespace ?? (given === "" ? "default" : given);
}

/**
 * The driver for the chosen store.
 * @throws ExitError 78 when the environment or a file names no store, as an error of configuration
 */
export async function connectStore(store: ChosenStore, messages: Messages): Promise<Driver> {
  if (store.from === "--store" && hasSecret(store.url))
    messages.note(
      "the password in --store can be seen by everybody on this host; use RINGFENCE_STORE or --store-file",
    );
  if (/^memory:/i.test(store.url))
    messages.note("memory: is private to this one process, so it excludes nobody else");
  messages.detail(`store: ${redactUrl(store.url)} (${store.from})`);
  try {
    return await connect(store.url);
  } catch (error) {
    if (store.from === "--store" || !(error instanceof InvalidArgumentError)) throw error;
    throw new ExitError(EXIT.config, `${store.from}: ${error.message}`);
  }
}

function readStoreFile(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ExitError(EXIT.config, `--store-file cannot be read: ${(error as Error).message}`);
  }
  const lines = text.split("\n").map((line) => line.trim());
  const [url, more] = lines.filter((line) => line !== "" && !line.startsWith("#"));
  if (url === undefined || more !== undefined)
    throw new ExitError(EXIT.config, `--store-file ${file} should hold one line with a store URL`);
  return url;
}

function defaultFile(env: NodeJS.ProcessEnv): string {
  const home = env["HOME"] ?? "";
  const xdg = env["XDG_STATE_HOME"] ?? "";
  // A relative XDG path is to be ignored, says its specification.
  const state = isAbsolute(xdg) ? xdg : home === "" ? "" : join(home, ".local", "state");
  if (state === "")
    throw new ExitError(
      EXIT.config,
      "no store: neither HOME nor XDG_STATE_HOME is set; set RINGFENCE_STORE, for example to sqlite:/var/lib/app/locks.db",
    );
  const folder = join(state, "ringfence");
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new ExitError(
      EXIT.config,
      `the default store's folder cannot be made: ${(error as Error).message}; set RINGFENCE_STORE`,
    );
  }
  return join(folder, "locks.db");
}

/** A path inside a URL: what a query or an escape would begin with is escaped. */
function encodePath(path: string): string {
  return path.replace(/[%?#]/g, encodeURIComponent);
}
