import * as manifests from "../../core/guard-manifest.ts";

/** How many generations remember their ids: how far others may get while an answer is awaited. */
const REMEMBERED = 64;

/** Which generation a manifest is of. */
interface Lineage {
  readonly number: number;
  /** The ids of this generation and of those before it, newest first: which changes were applied. */
  readonly ids: readonly string[];
}

/** Everything that one generation of a store says. Content is in objects beside it, which never change. */
export interface Manifest extends manifests.FilesState, Lineage {}

/** Where nothing is yet. */
export const EMPTY: Manifest = {
  number: 0,
  ids: [],
  entries: new Map(),
  floors: new Map(),
  files: new Map(),
};

/** The manifest after `before`, with this id in front. */
export function next(before: Manifest, id: string, state: manifests.FilesState): Manifest {
  return {
    number: before.number + 1,
    ids: [id, ...before.ids.slice(0, REMEMBERED - 1)],
    ...state,
  };
}

/** Whether the change with this id, made for generation `number`, was applied; `null`: too long ago to tell. */
export function wasApplied(now: Manifest, id: string, number: number): boolean | null {
  if (now.ids.includes(id)) return true;
  return now.number - number < REMEMBERED ? false : null;
}

export function writeManifest(manifest: Manifest): Uint8Array {
  const { number, ids } = manifest;
  return Buffer.from(manifests.writeManifest(manifest, { number, ids }));
}

/** @throws BackendConfigError for another format, or for what is no manifest */
export function readManifest(bytes: Uint8Array): Manifest {
  const text = Buffer.from(bytes).toString("utf8");
  const { state, own } = manifests.readManifest(text, "These objects are");
  const { number, ids } = own as Lineage;
  return { ...state, number, ids };
}
