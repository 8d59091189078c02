import type * as Fs from "node:fs";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, it, vi } from "vitest";
import { fileIdentity, leadsTo } from "../../src/drivers/sqlite/file.ts";

const folder = mkdtempSync(join(tmpdir(), "ringfence-file-"));
const path = join(folder, "locks.db");
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** What is added to every inode number, as on file systems whose numbers use all 64 bits. */
const far = vi.hoisted(() => ({ by: 0n }));
afterEach(() => {
  far.by = 0n;
});

vi.mock("node:fs", async (original) => {
  const fs = await original<typeof Fs>();
  return {
    ...fs,
    statSync: (...args: Parameters<typeof fs.statSync>) => {
      const found = fs.statSync(...args);
      if (found === undefined || far.by === 0n) return found;
      const ino = typeof found.ino === "bigint" ? found.ino + far.by : found.ino + Number(far.by);
      return Object.assign(found, { ino });
    },
  };
});

it.each([0n, 2n ** 60n])(
  "a path leads to its file until that is replaced or deleted (%d)",
  (by) => {
    far.by = by;
    writeFileSync(path, "");
    const identity = fileIdentity(path);
    const [here, nowhere] = [leadsTo(path, identity), leadsTo(path, null)];
    expect(here()).toBe(true);
    expect(nowhere()).toBe(false);
    // The next inode: as doubles, two numbers of 60 bits that are as near as this are one.
    writeFileSync(`${path}.new`, "");
    renameSync(`${path}.new`, path);
    expect(here()).toBe(false);
    rmSync(path);
    expect(here()).toBe(false);
    expect(nowhere()).toBe(true);
  },
);
