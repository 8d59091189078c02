/*
 * The atomic step of the file guard: a chain of generations in one directory.
 *
 * State: `g-<n>` is the manifest of generation n; the highest number is the current one. `c-<n>-<random>` is content
 * that was written for generation n, `t-<n>-<random>` a manifest on its way. Nothing is ever changed in place.
 * Step: a change that was computed from generation n is written to a temporary file and then *linked* as `g-<n+1>`;
 * link(2) fails when that name exists, so exactly one of two changes that started from n becomes n+1 and the other one
 * starts again. Read, compare and rename has no such failure: the later rename wins, whichever token it carries.
 *
 * Pruning and the paused writer: numbers far below the current one are deleted, so a writer that was stopped before its
 * link may find `g-<n+1>` free although the chain went far past it:
 *   A: computes n+1, stops      others: n+1 ... n+100, prune up to n+36      A: link g-<n+1> succeeds
 * Such a link is invisible (the highest number is current), and A must not believe it. Pruning strictly ascends, so as
 * long as generation n, with the id that A read, is there, n+1 was never pruned and A's link is genuine. Otherwise A
 * looks at what follows (`whetherLinked`). A crash at any point leaves files that no generation names; they carry the
 * number that they were made for and go when the chain is far enough past it.
 *
 * What breaks it: file systems without hard links or with stale directory listings (NFS, SMB, many FUSE ones), and
 * programs that touch these files.
 */
import { link, mkdir, open, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { BackendConfigError, BackendError } from "../../core/errors.ts";
import type { FilesChanges } from "../../core/guard-files.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import { type Manifest, readManifest, writeManifest } from "./manifest.ts";

/** Generations that stay behind the current one: how far others may get while a writer is stopped and still get a definite answer. */
const KEEP = 64;
/** How often a commit looks for what can go. */
const PRUNE_EVERY = 16;
const FIRST = 0;

/** One generation, as it was read. */
export interface Generation {
  readonly number: number;
  readonly manifest: Manifest;
}

/** A change that was computed from one generation. */
export interface Change extends FilesChanges {
  readonly from: Generation;
}

/** What became of a change. `conflict`: another one came first, nothing was applied. */
export type Committed = "committed" | "conflict" | "unknown";

function nameOf(number: number): string {
  return `g-${number.toString().padStart(16, "0")}`;
}

function randomId(): string {
  return Buffer.from(systemRandom.bytes(15)).toString("base64url");
}

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown } | null)?.code;
}

/** The numbers of the generations in a directory, ascending; none when it does not exist. */
async function numbersIn(dir: string): Promise<number[]> {
  const names = await readdir(dir).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  });
  return names
    .filter((name) => /^g-\d{16}$/.test(name))
    .map((name) => Number(name.slice(2)))
    .sort((a, b) => a - b);
}

async function manifestAt(dir: string, number: number): Promise<Manifest | null> {
  try {
    return readManifest(await readFile(join(dir, nameOf(number)), "utf8"));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** The current generation; makes the directory and its first generation where there is none. */
export async function currentGeneration(dir: string): Promise<Generation> {
  for (;;) {
    const number = (await numbersIn(dir)).at(-1);
    if (number === undefined) {
      await mkdir(dir, { recursive: true });
      const empty = { entries: new Map(), floors: new Map(), files: new Map() };
      await linkManifest(dir, FIRST, { id: randomId(), base: "", ...empty });
      continue;
    }
    const manifest = await manifestAt(dir, number);
    // Pruned between the listing and the read: the chain went on, so there is a newer one to find.
    if (manifest !== null) return { number, manifest };
  }
}

/** The content of a file of a generation; `null` when it went meanwhile, which means that the chain went on. */
export async function contentOf(dir: string, file: string): Promise<Uint8Array | null> {
  try {
    return await readFile(join(dir, file));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** Makes `change` the next generation, unless another one came first. */
export async function commit(dir: string, change: Change): Promise<Committed> {
  const number = change.from.number + 1;
  const files = new Map(change.from.manifest.files);
  const written: string[] = [];
  for (const [name, content] of change.writes) {
    files.delete(name);
    if (content === null) continue;
    const file = `c-${number}-${randomId()}`;
    await writeDurably(join(dir, file), content);
    written.push(file);
    files.set(name, file);
  }
  const { entries, floors } = change;
  const manifest = { entries, floors, files, id: randomId(), base: change.from.manifest.id };
  const linked = await linkManifest(dir, number, manifest);
  const outcome = linked ? await whetherLinked(dir, change.from, manifest.id) : "conflict";
  if (outcome === "conflict") await removeAll(dir, written);
  if (outcome === "committed" && number % PRUNE_EVERY === 0) await prune(dir, number, manifest);
  return outcome;
}

/** Whether `number` was free and is this manifest now. */
async function linkManifest(dir: string, number: number, manifest: Manifest): Promise<boolean> {
  const temporary = join(dir, `t-${number}-${randomId()}`);
  await writeDurably(temporary, writeManifest(manifest));
  try {
    await link(temporary, join(dir, nameOf(number)));
  } catch (error) {
    await unlink(temporary).catch(ignoreLeftover);
    // ENOENT: the chain went so far past us that our temporary file was cleaned away.
    if (codeOf(error) === "EEXIST" || codeOf(error) === "ENOENT") return false;
    throw unusable(dir, error);
  }
  await unlink(temporary).catch(ignoreLeftover);
  await syncDirectory(dir);
  return true;
}

/** Whether a link that succeeded made a generation of the chain, or only filled a hole that pruning had left. */
async function whetherLinked(dir: string, from: Generation, id: string): Promise<Committed> {
  const base = await manifestAt(dir, from.number);
  if (base?.id === from.manifest.id) return "committed";
  const number = from.number + 1;
  // In this order: pruning ascends, so ours being there *after* the next one was missing means it was never followed.
  const next = await manifestAt(dir, number + 1);
  const ours = await manifestAt(dir, number);
  if (next !== null && next.base === id) return "committed";
  if (ours?.id !== id) return "unknown";
  if (next === null && (await numbersIn(dir)).at(-1) === number) return "committed";
  await unlink(join(dir, nameOf(number))).catch(ignoreLeftover);
  return "conflict";
}

/**
 * Deletes what the chain is far past: old generations in ascending order, and files that were made for such a number
 * and that the current generation does not name. A change that could still name them starts from a number whose
 * successor exists, so it can never be linked.
 */
async function prune(dir: string, current: number, manifest: Manifest): Promise<void> {
  const limit = current - KEEP;
  for (const number of await numbersIn(dir)) {
    if (number >= limit) break;
    try {
      await unlink(join(dir, nameOf(number)));
    } catch (error) {
      // Whoever cannot delete this one must not go on: an older generation may never outlive a newer one.
      if (codeOf(error) !== "ENOENT") return;
    }
  }
  const named = new Set(manifest.files.values());
  const orphans = (await readdir(dir)).filter((name) => {
    const number = /^[ct]-(\d+)-/.exec(name)?.[1];
    return number !== undefined && Number(number) <= limit && !named.has(name);
  });
  await removeAll(dir, orphans);
}

async function removeAll(dir: string, names: readonly string[]): Promise<void> {
  for (const name of names) await unlink(join(dir, name)).catch(ignoreLeftover);
}

/** A file that cannot be removed now, or went already, is harmless: the change itself is decided. */
function ignoreLeftover(): undefined {
  return undefined;
}

async function writeDurably(path: string, content: string | Uint8Array): Promise<void> {
  const file = await open(path, "wx");
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncDirectory(dir: string): Promise<void> {
  // Windows has no handle for this; its file systems journal the names.
  if (process.platform === "win32") return;
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function unusable(dir: string, error: unknown): BackendError {
  const facts = { operation: "commit", outcome: "not-applied", cause: error } as const;
  return ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"].includes(String(codeOf(error)))
    ? new BackendConfigError(`The file system of ${dir} has no hard links`, facts)
    : new BackendError(`The store ${dir} cannot be written`, facts);
}
