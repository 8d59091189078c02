import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export const ROOT: string = resolve(import.meta.dirname, "../..");

/** What a test reads of package.json. */
export interface Manifest {
  readonly version: string;
  readonly exports: Readonly<Record<string, string | { types: string; default: string }>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

export function manifest(): Manifest {
  return JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;
}

/** Subpaths that are modules, with the files that package.json names for them. */
export function entries(): { subpath: string; types: string; code: string }[] {
  return Object.entries(manifest().exports).flatMap(([subpath, target]) =>
    typeof target === "string" ? [] : [{ subpath, types: target.types, code: target.default }],
  );
}

/** Builds dist/ when it is out of date, so that these tests read what the sources say now. */
export function ensureBuilt(): void {
  execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: ROOT, stdio: "pipe" });
}

/** The environment without what npm and CI add: a child's own npm or tool is not to inherit it. */
export function plainEnv(extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const drop = /^(npm_|INIT_CWD$|NODE_ENV$|NODE_OPTIONS$|VITEST|RINGFENCE_|FORCE_COLOR$)/;
  const own = Object.entries(process.env).filter(([key]) => !drop.test(key));
  return { ...Object.fromEntries(own), ...extra };
}
