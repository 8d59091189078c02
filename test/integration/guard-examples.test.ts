import { afterEach, beforeEach, expect, it } from "vitest";
import { main as file } from "../../examples/guard-file.ts";
import { main as memory } from "../../examples/guard-memory.ts";
import { main as sqlite } from "../../examples/guard-sqlite.ts";
import { temporaryFolder } from "../support/guard-fixtures.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => {
  folder.remove();
});

it("examples/guard-memory.ts refuses the holder that was replaced", async () => {
  expect(await memory()).toEqual({ seats: 98, refused: true });
});

it("examples/guard-sqlite.ts writes in one transaction, as a long job, and by row", async () => {
  expect(await sqlite(folder.path)).toEqual({ balance: 77, status: "done" });
});

it("examples/guard-file.ts rewrites one file, and two as one", async () => {
  expect(await file(folder.path)).toEqual({ visits: "3", pages: '["about"]' });
});
