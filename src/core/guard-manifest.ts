import { BackendConfigError } from "./errors.ts";
import type { UsedClaim } from "./guard-entries.ts";

const FORMAT = 1;

/** What every generation of a store of files says. */
export interface FilesState {
  readonly entries: ReadonlyMap<string, UsedClaim>;
  /** Per scope, the token that missing entries inherit. */
  readonly floors: ReadonlyMap<string, bigint>;
  /** Per name, where its content is; contents never change. */
  readonly files: ReadonlyMap<string, string>;
}

/** The same for JSON. Lists, not objects: a resource may have any name. */
interface Stored {
  readonly format: number;
  readonly entries: readonly (readonly [string, string, string, string, number])[];
  readonly floors: readonly (readonly [string, string])[];
  readonly files: readonly (readonly [string, string])[];
}

/** A generation as text; `own` is what only this kind of store says, as JSON has it. */
export function writeManifest(state: FilesState, own: object): string {
  const stored: Stored = {
    ...own,
    format: FORMAT,
    entries: [...state.entries].map(([resource, { token, grantId, scope, usedAtMs }]) => [
      resource,
      token.toString(),
      grantId,
      scope,
      usedAtMs,
    ]),
    floors: [...state.floors].map(([scope, token]) => [scope, token.toString()]),
    files: [...state.files],
  };
  return JSON.stringify(stored);
}

/**
 * The same back; `what` begins the sentence that refuses it.
 * @throws BackendConfigError for another format, or for what is no manifest
 */
export function readManifest(
  text: string,
  what: string,
): { readonly state: FilesState; readonly own: unknown } {
  const refuse = (why: string, cause?: unknown): BackendConfigError =>
    new BackendConfigError(`${what} no store of this version: ${why}`, {
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
  const state = {
    entries: new Map(
      stored.entries.map(([resource, token, grantId, scope, usedAtMs]) => [
        resource,
        { token: BigInt(token), grantId, scope, usedAtMs },
      ]),
    ),
    floors: new Map(stored.floors.map(([scope, token]) => [scope, BigInt(token)])),
    files: new Map(stored.files),
  };
  return { state, own: stored };
}
