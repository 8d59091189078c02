import * as manifests from "../../core/guard-manifest.ts";

/** Which generation a manifest is of. */
interface Lineage {
  /** Random: tells this generation from another one that was given the same number. */
  readonly id: string;
  /** The id of the generation that this one was computed from; empty for the first. */
  readonly base: string;
}

/** Everything that one generation says. Content is in files beside it, which never change. */
export interface Manifest extends manifests.FilesState, Lineage {}

export function writeManifest(manifest: Manifest): string {
  const { id, base } = manifest;
  return manifests.writeManifest(manifest, { id, base });
}

/** @throws BackendConfigError for another format, or for what is no manifest */
export function readManifest(text: string): Manifest {
  const { state, own } = manifests.readManifest(text, "This directory is");
  const { id, base } = own as Lineage;
  return { ...state, id, base };
}
