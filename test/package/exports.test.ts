import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { ensureBuilt, entries, manifest, ROOT } from "./built.ts";

beforeAll(ensureBuilt, 60_000);

/** The files that users import from: the main entry, and each `index.ts` of the public layers. */
function publicEntries(): string[] {
  const below = (layer: string): string[] => {
    const folder = join(ROOT, "src", layer);
    return existsSync(folder) ? readdirSync(folder).map((name) => `${layer}/${name}/index`) : [];
  };
  return ["index", "connect/index", "testing/index", ...below("drivers"), ...below("guards")]
    .filter((entry) => existsSync(join(ROOT, "src", `${entry}.ts`)))
    .sort();
}

it("exports exactly the public entries that exist", () => {
  const exported = entries().map(({ code }) => code.replace(/^\.\/dist\/|\.js$/g, ""));
  expect(exported.sort()).toEqual(publicEntries());
});

it("each exported file is built, code and types from the same source", () => {
  for (const { code, types } of entries()) {
    expect(types).toBe(code.replace(/\.js$/, ".d.ts"));
    for (const file of [code, types]) expect(existsSync(join(ROOT, file)), file).toBe(true);
  }
  for (const file of Object.values(manifest().bin))
    expect(existsSync(join(ROOT, file)), file).toBe(true);
});

it("subpaths are named after their folders: drivers by their own name, everything else by its path", () => {
  for (const { subpath, code } of entries()) {
    const path = code.replace(/^\.\/dist\/|\/?index\.js$/g, "").replace(/^drivers\//, "");
    expect(subpath).toBe(path === "" ? "." : `./${path}`);
  }
});

it("the library part needs no package: the command has one, SQLite's substitute and all clients are optional", () => {
  const {
    dependencies = {},
    optionalDependencies = {},
    peerDependencies = {},
    ...more
  } = manifest();
  expect(Object.keys(dependencies)).toEqual(["commander"]);
  expect(Object.keys(optionalDependencies)).toEqual(["libsql"]);
  const peers = Object.keys(peerDependencies);
  expect(peers).toEqual(["ioredis", "mysql2", "pg", "postgres", "redis"]);
  const meta = more.peerDependenciesMeta ?? {};
  expect(peers.filter((peer) => meta[peer]?.optional !== true)).toEqual([]);
});
