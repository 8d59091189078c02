/**
 * How a lease over several servers is extended, as a pure function: it goes on while a quorum still has the very tenures
 * that it was granted on. Only then is it set again where it is absent, and those servers do not count in that round: a
 * lease that fell below its quorum is never made whole.
 */
import type { Hold } from "./rounds.ts";

/** What one server said of the lease. */
type Word = "asked" | "kept" | "adopted" | "absent" | "refused" | "silent";

/** An extension so far. */
export interface Extension {
  readonly quorum: number;
  readonly phase: "asking" | "renewed" | "gone" | "failed";
  readonly words: readonly Word[];
  /** The tenures that count from now on; `null` where there is none that we know of. */
  readonly holds: readonly (Hold | null)[];
}

/** What was heard of one server. */
export type ExtensionInput =
  | { readonly kind: "kept"; readonly server: number; readonly hold: Hold }
  /** It is not there, and nobody else is. */
  | { readonly kind: "absent"; readonly server: number }
  /** Somebody else is there, or it must not come back. */
  | { readonly kind: "refused"; readonly server: number }
  | { readonly kind: "silent"; readonly server: number };

/** What is to be done now. */
export type ExtensionOutput =
  | { readonly kind: "restore"; readonly server: number }
  | { readonly kind: "renewed" | "gone" | "failed" };

export function newExtension(quorum: number, holds: readonly (Hold | null)[]): Extension {
  return { quorum, phase: "asking", words: holds.map(() => "asked"), holds };
}

/** Takes in what was heard. */
export function stepExtension(
  extension: Extension,
  input: ExtensionInput,
): { readonly next: Extension; readonly outputs: readonly ExtensionOutput[] } {
  const { server } = input;
  if (extension.words[server] !== "asked") return { next: extension, outputs: [] };
  const known = extension.holds[server] ?? null;
  let word: Word = input.kind;
  let hold = known;
  if (input.kind === "kept") {
    // A tenure that we never heard of may have begun after somebody else's: it counts from the next time on.
    if (known?.value !== input.hold.value || known.counter !== input.hold.counter) word = "adopted";
    hold = input.hold;
  } else if (input.kind !== "silent") hold = null;
  const next: Extension = {
    ...extension,
    words: extension.words.with(server, word),
    holds: extension.holds.with(server, hold),
  };
  if (next.phase === "asking") return conclude(next);
  const late = next.phase === "renewed" && word === "absent";
  return { next, outputs: late ? [{ kind: "restore", server }] : [] };
}

function conclude(extension: Extension): {
  readonly next: Extension;
  readonly outputs: readonly ExtensionOutput[];
} {
  const { quorum, words } = extension;
  const count = (...of: readonly Word[]): number =>
    words.filter((word) => of.includes(word)).length;
  const kept = count("kept");
  if (kept >= quorum)
    return {
      next: { ...extension, phase: "renewed" },
      outputs: [
        { kind: "renewed" },
        ...words.flatMap((word, server): ExtensionOutput[] =>
          word === "absent" ? [{ kind: "restore", server }] : [],
        ),
      ],
    };
  if (count("adopted", "absent", "refused") > words.length - quorum)
    return { next: { ...extension, phase: "gone" }, outputs: [{ kind: "gone" }] };
  if (kept + count("asked") < quorum)
    return { next: { ...extension, phase: "failed" }, outputs: [{ kind: "failed" }] };
  return { next: extension, outputs: [] };
}
