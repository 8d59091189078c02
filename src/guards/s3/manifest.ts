import { BackendConfigError } from "../../core/errors.ts";
import type { UsedClaim } from "../../core/guard-entries.ts";

const FORMAT = 1;
/** How many generations remember their ids: how far others may get while an answer is awaited. */
const REMEMBERED = 64;

/** Everything that one generation of a store says. Content is in objects beside it, which never change. */
export interface Manifest {
  readonly number: number;
  /** The ids of this generation and of those before it, newest first: which changes were applied. */
  readonly ids: readonly string[];
  readonly entries: ReadonlyMap<string, UsedClaim>;
  /** Per scope, the token that missing entries inherit. */
  readonly floors: ReadonlyMap<string, bigint>;
  /** Per name, the object that has its content. */
  readonly files: ReadonlyMap<string, string>;
}

/** Where nothing is yet. */
export const EMPTY: Manifest = {
  number: 0,
  ids: [],
  entries: new Map(),
  floors: new Map(),
  files: new Map(),
};

interface Stored {
  readonly format: number;
  readonly number: number;
  readonly ids: readonly string[];
  readonly entries: readonly (readonly [string, string, string, string, number])[];
  readonly floors: readonly (readonly [string, string])[];
  readonly files: readonly (readonly [string, string])[];
}

/** The manifest after `before`, with this id in front. */
export function next(
  before: Manifest,
  id: string,
  parts: Pick<Manifest, "entries" | "floors" | "files">,
): Manifest {
  return {
    number: before.number + 1,
    ids: [id, ...before.ids.slice(0, REMEMBERED - 1)],
    ...parts,
  };
}

/** Whether the change with this id, made for generation `number`, was applied; `null`: too long ago to tell. */
export function wasApplied(now: Manifest, id: string, number: number): boolean | null {
  if (now.ids.includes(id)) return true;
  return now.number - number < REMEMBERED ? false : null;
}

/** A manifest as bytes. Lists, not objects: a resource may have any name. */
export function writeManifest(manifest: Manifest): Uint8Array {
  const stored: Stored = {
    format: FORMAT,
    number: manifest.number,
    ids: manifest.ids,
    entries: [...manifest.entries].map(([resource, { token, grantId, scope, usedAtMs }]) => [
      resource,
      token.toString(),
      grantId,
      scope,
      usedAtMs,
    ]),
    floors: [...manifest.floors].map(([scope, token]) => [scope, token.toString()]),
    files: [...manifest.files],
  };
  return Buffer.from(JSON.stringify(stored));
}

/** @throws BackendConfigError for another format, or for what is no manifest */
export function readManifest(bytes: Uint8Array): Manifest {
  const refuse = (why: string, cause?: unknown): BackendConfigError =>
    new BackendConfigError(`These objects are no store of this version: ${why}`, {
      operation: "open",
      outcome: "not-applied",
      cause,
    });
  let stored: Stored;
  try {
    stored = JSON.parse(Buffer.from(bytes).toString("utf8")) as Stored;
  } catch (error) {
    throw refuse("the manifest is no JSON", error);
  }
  if (stored.format !== FORMAT)
    throw refuse(`the format is ${stored.format}, this version knows ${FORMAT}`);
  return {
    number: stored.number,
    ids: stored.ids,
    entries: new Map(
      stored.entries.map(([resource, token, grantId, scope, usedAtMs]) => [
        resource,
        { token: BigInt(token), grantId, scope, usedAtMs },
      ]),
    ),
    floors: new Map(stored.floors.map(([scope, token]) => [scope, BigInt(token)])),
    files: new Map(stored.files),
  };
}
