import { show } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";

/** The options of a manager. */
export const MANAGER_OPTIONS: readonly string[] = [
  "namespace",
  "backendId",
  "ttl",
  "wait",
  "keepalive",
  "lockDelay",
  "maxHold",
  "marginRatio",
  "handOff",
  "requestTimeout",
  "drain",
  "holder",
  "sequencerKeys",
  "detectReentry",
  "history",
  "trustSettings",
  "require",
  "clock",
  "random",
];
const COMMON = [
  "mode",
  "ttl",
  "wait",
  "signal",
  "keepalive",
  "maxHold",
  "lockDelay",
  "above",
  "label",
  "metadata",
];
/** A permit has no token that could exceed `above`. */
const FOR_PERMITS = COMMON.filter((option) => option !== "mode" && option !== "above");
type CallName =
  | "acquire"
  | "tryAcquire"
  | "request"
  | "permits"
  | "tryPermits"
  | "permitRequest"
  | "once"
  | "revoke"
  | "query"
  | "semaphore";

/** Which options each call takes. */
export const CALL_OPTIONS: Readonly<Record<CallName, readonly string[]>> = {
  acquire: COMMON,
  tryAcquire: COMMON.filter((option) => option !== "wait"),
  request: [...COMMON, "ifAvailable", "reentrant", "guard"],
  permits: FOR_PERMITS,
  tryPermits: FOR_PERMITS.filter((option) => option !== "wait"),
  permitRequest: [...FOR_PERMITS, "ifAvailable"],
  once: ["keep", "at", "retryOnError", "ttl", "label", "metadata"],
  revoke: ["reason", "grantId", "now"],
  query: ["prefix", "limit"],
  semaphore: ["permits"],
};

/** @throws InvalidArgumentError for anything but an object with known option names */
export function checkOptions(options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw new InvalidArgumentError(`Expected the options to be an object, got ${show(options)}.`);
  for (const option of Object.keys(options)) {
    if (known.includes(option)) continue;
    const near = nearest(option, known);
    throw new InvalidArgumentError(
      `Expected only known options, got \`${option}\`.${near === null ? ` Known: ${known.join(", ")}.` : ` Did you mean \`${near}\`?`}`,
    );
  }
}

/** The known word that is at most two edits away from `word`. */
function nearest(word: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let least = 3;
  for (const candidate of known) {
    const edits = distance(word.toLowerCase(), candidate.toLowerCase());
    if (edits < least) [best, least] = [candidate, edits];
  }
  return best;
}

function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return 3;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1)
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1),
        ),
      );
    row = next;
  }
  return row[b.length] ?? 0;
}
