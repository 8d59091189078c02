import { BackendConfigError } from "../../core/errors.ts";
import type { UsedClaim } from "../../core/guard-entries.ts";

const FORMAT = 1;

/** Everything that one generation says. Content is in files beside it, which never change. */
export interface Manifest {
  /** Random: tells this generation from another one that was given the same number. */
  readonly id: string;
  /** The id of the generation that this one was computed from; empty for the first. */
  readonly base: string;
  readonly entries: ReadonlyMap<string, UsedClaim>;
  /** Per scope, the token that missing entries inherit. */
  readonly floors: ReadonlyMap<string, bigint>;
  /** Per name, the file that has its content. */
  readonly files: ReadonlyMap<string, string>;
}

interface Stored {
  readonly format: number;
  readonly id: string;
  readonly base: string;
  readonly entries: readonly (readonly [string, string, string, string, number])[];
  readonly floors: readonly (readonly [string, string])[];
  readonly files: readonly (readonly [string, string])[];
}

/** A manifest as text. Lists, not objects: a resource may have any name. */
export function writeManifest(manifest: Manifest): string {
  const stored: Stored = {
    format: FORMAT,
    id: manifest.id,
    base: manifest.base,
    entries: [...manifest.entries].map(([resource, entry]) => [
      resource,
      entry.token.toString(),
      entry.grantId,
      entry.scope,
      entry.usedAtMs,
    ]),
    floors: [...manifest.floors].map(([scope, token]) => [scope, token.toString()]),
    files: [...manifest.files],
  };
  return JSON.stringify(stored);
}

/** @throws BackendConfigError for another format, or for what is no manifest */
export function readManifest(text: string): Manifest {
  const refuse = (why: string, cause?: unknown): BackendConfigError =>
    new BackendConfigError(`This directory is no store of this version: ${why}`, {
      operation: "open",
      outcome: "not-applied",
      cause,
    });
  let stored: Stored;
  try {
    stored = JSON.parse(text) as Stored;
  } catch (error) {
    throw refuse("its manifest is no JSON", error);
  }
  if (stored.format !== FORMAT)
    throw refuse(`its format is ${stored.format}, this version knows ${FORMAT}`);
  return {
    id: stored.id,
    base: stored.base,
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
