import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { BackendConfigError, InvalidArgumentError } from "../../src/core/errors.ts";
import {
  type Change,
  commit,
  contentOf,
  currentGeneration,
  type Generation,
} from "../../src/guards/file/generations.ts";
import { fileGuard, fileStore } from "../../src/guards/file/index.ts";
import { temporaryFolder } from "../support/guard-fixtures.ts";

let folder: ReturnType<typeof temporaryFolder>;
const guard = fileGuard();
const holder = (token: bigint): { token: bigint; grantId: string; scope: string; trust: true } => ({
  token,
  grantId: token.toString().padStart(27, "g"),
  scope: "s".repeat(27),
  trust: true,
});

beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => {
  folder.remove();
});

/** Each generation takes a few fsyncs, which a busy disk makes slow. */
const MANY_FSYNCS = 60_000;

/** A change from this generation that leaves its entries as they are. */
function stateOf(from: Generation): Omit<Change, "writes"> {
  return { from, entries: from.manifest.entries, floors: from.manifest.floors };
}

/** Makes the next generations, the last one with its number as content. */
async function advance(dir: string, count: number): Promise<void> {
  for (let i = 1; i <= count; i += 1) {
    const from = await currentGeneration(dir);
    const content = Buffer.from(`${from.number + 1}`);
    const writes = i === count ? new Map([["f", content]]) : new Map<string, Uint8Array>();
    expect(await commit(dir, { ...stateOf(from), writes })).toBe("committed");
  }
}

const text = async (dir: string): Promise<string> => {
  const { manifest } = await currentGeneration(dir);
  return Buffer.from((await contentOf(dir, manifest.files.get("f") ?? "")) ?? []).toString();
};

it("lets one of two changes become the next generation that started from the same one", async () => {
  const dir = folder.path;
  const from = await currentGeneration(dir);
  const change = (name: string): Parameters<typeof commit>[1] => ({
    ...stateOf(from),
    writes: new Map([["f", Buffer.from(name)]]),
  });
  const outcomes = await Promise.all(
    ["a", "b", "c"].map(async (name) => commit(dir, change(name))),
  );
  expect(outcomes.toSorted()).toEqual(["committed", "conflict", "conflict"]);
  expect(await text(dir)).toBe(["a", "b", "c"][outcomes.indexOf("committed")]);
});

it(
  "refuses a writer that was stopped for so long that pruning freed its number again",
  async () => {
    const dir = folder.path;
    await advance(dir, 5);
    const from = await currentGeneration(dir);
    await advance(dir, 80);
    // The hole is there, and link(2) would succeed in it.
    expect(readdirSync(dir)).not.toContain(`g-${"6".padStart(16, "0")}`);
    const late = { ...stateOf(from), writes: new Map([["f", Buffer.from("late")]]) };
    expect(await commit(dir, late)).toBe("conflict");
    expect(await text(dir)).toBe("85");
    await advance(dir, 2);
    expect(await text(dir)).toBe("87");
  },
  MANY_FSYNCS,
);

it(
  "keeps a bounded number of files however many changes are made",
  async () => {
    const dir = folder.path;
    for (let i = 0; i < 55; i += 1) await advance(dir, 2);
    // 64 generations and up to 16 more until the next pruning; every second one has content.
    expect(readdirSync(dir).length).toBeLessThanOrEqual((64 + 16 + 1) * 1.5);
  },
  MANY_FSYNCS,
);

it(
  "cleans away what a crash left, once the chain is far past it, and nothing that is in use",
  async () => {
    const dir = folder.path;
    await advance(dir, 1);
    const store = fileStore(dir);
    await guard.update(store, "kept", holder(1n), () => "kept");
    const orphans = ["t-2-dead", "c-2-dead", "t-3-dead"];
    for (const name of orphans) writeFileSync(join(dir, name), "left by a crash");
    await advance(dir, 40);
    expect(readdirSync(dir)).toEqual(expect.arrayContaining(orphans));
    await advance(dir, 40);
    for (const name of orphans) expect(readdirSync(dir)).not.toContain(name);
    expect(await store.readText("kept")).toBe("kept");
  },
  MANY_FSYNCS,
);

it("ignores a generation that a crash left unlinked, and files of other programs", async () => {
  const dir = folder.path;
  await advance(dir, 2);
  for (const name of ["t-3-dead", "g-9", "README"]) writeFileSync(join(dir, name), "{");
  await advance(dir, 2);
  expect(await text(dir)).toBe("4");
});

it("refuses a store of a later format", async () => {
  writeFileSync(join(folder.path, `g-${"1".padStart(16, "0")}`), JSON.stringify({ format: 2 }));
  await expect(guard.claim(fileStore(folder.path), "r", holder(1n))).rejects.toThrow(
    BackendConfigError,
  );
});

it("updates a file from its current content, and deletes it for good", async () => {
  const store = fileStore(join(folder.path, "made", "at", "first use"));
  const count = (current: string | null): string => (Number(current ?? "0") + 1).toString();
  for (let i = 1n; i <= 3n; i += 1n) await guard.update(store, "count", holder(i), count);
  expect(await store.readText("count")).toBe("3");
  await guard.run(store, "count", holder(4n), async (tx) => {
    tx.delete("count");
    expect(await tx.read("count")).toBeNull();
  });
  expect(await store.read("count")).toBeNull();
});

it("keeps the bytes that were given, whatever becomes of the buffer", async () => {
  const store = fileStore(folder.path);
  const bytes = new Uint8Array([0, 255, 10]);
  await store.transaction(async (tx) => {
    tx.write("bytes", bytes);
    bytes.fill(1);
  });
  expect([...((await store.read("bytes")) ?? [])]).toEqual([0, 255, 10]);
});

it("refuses the use of a transaction that has ended", async () => {
  const store = fileStore(folder.path);
  const escaped = await store.transaction(async (tx) => tx);
  expect(() => {
    escaped.write("a", "b");
  }).toThrow(InvalidArgumentError);
  await expect(escaped.read("a")).rejects.toThrow(InvalidArgumentError);
  await expect(guard.verify(escaped, "a", holder(1n))).rejects.toThrow(InvalidArgumentError);
});
