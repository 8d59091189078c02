import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, it } from "vitest";
import { ensureBuilt, entries, ROOT } from "./built.ts";
import { type Surface, surfaces } from "./surface.ts";

let all: ReadonlyMap<string, Surface>;
beforeAll(() => {
  ensureBuilt();
  all = surfaces();
}, 60_000);

// A change of a public name is a change of these lists, for a reviewer to see.

it("ringfence", () => {
  expect(all.get(".")).toMatchInlineSnapshot();
});

it("ringfence/memory", () => {
  expect(all.get("./memory")).toMatchInlineSnapshot();
});

it("ringfence/sqlite", () => {
  expect(all.get("./sqlite")).toMatchInlineSnapshot();
});

it("ringfence/connect", () => {
  expect(all.get("./connect")).toMatchInlineSnapshot();
});

it("ringfence/testing", () => {
  expect(all.get("./testing")).toMatchInlineSnapshot();
});

it("ringfence/guards/memory", () => {
  expect(all.get("./guards/memory")).toMatchInlineSnapshot();
});

it("ringfence/guards/sqlite", () => {
  expect(all.get("./guards/sqlite")).toMatchInlineSnapshot();
});

it("ringfence/guards/file", () => {
  expect(all.get("./guards/file")).toMatchInlineSnapshot();
});

it("no subpath is left out above, and each really exports what its types say", async () => {
  expect([...all.keys()]).toEqual([
    ".",
    "./memory",
    "./sqlite",
    "./connect",
    "./testing",
    "./guards/memory",
    "./guards/sqlite",
    "./guards/file",
  ]);
  for (const { subpath, code } of entries()) {
    const module = (await import(pathToFileURL(join(ROOT, code)).href)) as object;
    expect(Object.keys(module).sort(), subpath).toEqual(all.get(subpath)?.values);
  }
});
