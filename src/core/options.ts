import type { Declaration, Mode, Requirements } from "./capabilities.ts";
import { type Bounds, parseDuration, show, showMs, YEAR_MS } from "./duration.ts";
import { InvalidArgumentError, UnsupportedError } from "./errors.ts";
import { MAX_TOKEN } from "./fencing-token.ts";
import { encodeHolder, type Holder } from "./holder.ts";
import type { AcquireOptions, Keepalive, ManagerOptions } from "./lock-manager.ts";
import { checkName, utf8Bytes } from "./lock-name.ts";
import { checkKeys, type SequencerKey } from "./sequencer.ts";

const TTL: Bounds = { min: 50, max: YEAR_MS };
const DELAY: Bounds = { min: 0, max: 60_000 };
const WAIT: Bounds = { min: 0, max: YEAR_MS };
const SHORT: Bounds = { min: 1, max: 3_600_000 };

/** The terms on which one lease is asked for: an acquisition's options, checked and with the manager's defaults. */
export interface Terms {
  readonly mode: Mode;
  readonly permits: number;
  readonly ttlMs: number;
  /** Infinity: as long as it takes. */
  readonly waitMs: number;
  readonly lockDelayMs: number;
  readonly keepalive: Keepalive;
  /** Infinity: no limit. */
  readonly maxHoldMs: number;
  readonly requestTimeoutMs: number;
  readonly above: bigint | undefined;
  /** The assumed difference of clock rates. */
  readonly marginRatio: number;
  readonly holder: Holder;
  readonly holderText: string;
}

/** A manager's options, checked. */
export interface Settings {
  readonly namespace: string;
  readonly backendId: string;
  readonly handOff: boolean;
  readonly drainMs: number;
  readonly requestTimeoutMs: number | undefined;
  readonly keys: readonly SequencerKey[];
  readonly detectReentry: boolean;
  readonly trustSettings: boolean;
  /** Terms of an exclusive acquisition without options. */
  readonly defaults: Terms;
}

const MANAGER_OPTIONS = [
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

/** One of a few words. @throws InvalidArgumentError */
function oneOf<T extends string>(option: string, value: unknown, words: readonly T[]): T {
  if (words.includes(value as T)) return value as T;
  throw new InvalidArgumentError(
    `Expected \`${option}\` to be ${words.map((word) => `"${word}"`).join(" or ")}, got ${show(value)}.`,
  );
}

function flag(option: string, value: unknown, otherwise: boolean): boolean {
  if (value === undefined) return otherwise;
  if (typeof value === "boolean") return value;
  throw new InvalidArgumentError(`Expected \`${option}\` to be true or false, got ${show(value)}.`);
}

/** Milliseconds of `"forever"` or of a duration. */
function parseWait(value: unknown): number {
  return value === "forever" ? Infinity : parseDuration("wait", value, WAIT);
}

/** A ttl that this driver keeps, rounded up to its steps. @throws InvalidArgumentError below its least */
export function parseTtl(value: unknown, declared: Declaration): number {
  const ms = parseDuration("ttl", value, TTL);
  const { minMs, stepMs } = declared.ttl;
  if (ms < minMs)
    throw new InvalidArgumentError(
      `Expected \`ttl\` to be at least ${showMs(minMs)} on this driver, got ${show(value)}.`,
    );
  return Math.ceil(ms / stepMs) * stepMs;
}

function holderOf(host: { name: string; pid: number }, label: unknown, metadata: unknown): Holder {
  if (typeof label !== "string" || utf8Bytes(label) > 256)
    throw new InvalidArgumentError(
      `Expected \`label\` to be a string of at most 256 bytes, got ${show(label)}.`,
    );
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
    throw new InvalidArgumentError(
      `Expected \`metadata\` to be an object of strings, got ${show(metadata)}.`,
    );
  for (const [key, value] of Object.entries(metadata))
    if (typeof value !== "string")
      throw new InvalidArgumentError(
        `Expected \`metadata.${key}\` to be a string, got ${show(value)}.`,
      );
  const text = JSON.stringify(metadata);
  if (utf8Bytes(text) > 4096)
    throw new InvalidArgumentError("Expected `metadata` to be at most 4 KiB as JSON.");
  return {
    label,
    host: host.name,
    pid: host.pid,
    metadata: JSON.parse(text) as Record<string, string>,
  };
}

/** Options that are objects: a typo inside one is seen as well. @throws InvalidArgumentError */
function checkNested({ holder, history, require }: ManagerOptions): void {
  if (holder !== undefined) checkOptions(holder, ["label", "metadata"]);
  if (require !== undefined) checkRequirements(require);
  if (history === undefined) return;
  checkOptions(history, ["file"]);
  if (typeof history.file !== "string" || history.file === "")
    throw new InvalidArgumentError(
      `Expected \`history.file\` to be a path, got ${show(history.file)}.`,
    );
}

/** What is misspelt would be taken for granted. @throws InvalidArgumentError */
function checkRequirements(require: Requirements): void {
  checkOptions(require, ["fencing", "modes", "waiting", "survivesServerClockSteps"]);
  const { fencing, modes, waiting, survivesServerClockSteps } = require;
  if (fencing !== undefined) oneOf("require.fencing", fencing, ["durable", "volatile"]);
  if (modes !== undefined) oneOf("require.modes", modes, ["exclusive", "shared", "permits"]);
  if (waiting !== undefined) oneOf("require.waiting", waiting, ["queue", "notify"]);
  flag("require.survivesServerClockSteps", survivesServerClockSteps, false);
}

/** Checks a manager's options. @throws InvalidArgumentError */
export function settingsOf(
  options: ManagerOptions,
  declared: Declaration,
  host: { name: string; pid: number },
): Settings {
  checkOptions(options, MANAGER_OPTIONS);
  const namespace = options.namespace ?? "default";
  checkName(namespace, "namespace");
  const backendId = options.backendId ?? "";
  if (backendId !== "") checkName(backendId, "backendId");
  const marginRatio = options.marginRatio ?? 0.01;
  if (typeof marginRatio !== "number" || !(marginRatio >= 0.01 && marginRatio <= 0.2))
    throw new InvalidArgumentError(
      `Expected \`marginRatio\` to be from 0.01 to 0.2, got ${show(marginRatio)}.`,
    );
  const keys = options.sequencerKeys ?? [];
  checkKeys(keys);
  checkNested(options);
  const holder = holderOf(host, options.holder?.label ?? "", options.holder?.metadata ?? {});
  const requestTimeoutMs =
    options.requestTimeout === undefined
      ? undefined
      : parseDuration("requestTimeout", options.requestTimeout, SHORT);
  const ttlMs = parseTtl(options.ttl ?? Math.max(30_000, declared.ttl.minMs), declared);
  return {
    namespace,
    backendId,
    handOff: oneOf("handOff", options.handOff ?? "local", ["local", "off"]) === "local",
    drainMs: parseDuration("drain", options.drain ?? 10_000, WAIT),
    requestTimeoutMs,
    keys,
    detectReentry: flag("detectReentry", options.detectReentry, true),
    trustSettings: flag("trustSettings", options.trustSettings, false),
    defaults: {
      mode: "exclusive",
      permits: 1,
      ttlMs,
      waitMs: parseWait(options.wait ?? "forever"),
      lockDelayMs: parseDuration("lockDelay", options.lockDelay ?? 0, DELAY),
      keepalive: oneOf("keepalive", options.keepalive ?? "auto", ["auto", "progress", "off"]),
      maxHoldMs:
        options.maxHold === undefined ? Infinity : parseDuration("maxHold", options.maxHold, TTL),
      requestTimeoutMs: requestTimeoutMs ?? Math.min(ttlMs / 3, 5000),
      above: undefined,
      marginRatio,
      holder,
      holderText: encodeHolder(holder),
    },
  };
}

/** The terms of one call: its options over the manager's defaults. @throws InvalidArgumentError, UnsupportedError */
export function termsOf(
  options: AcquireOptions,
  settings: Settings,
  declared: Declaration,
  permits: number | null = null,
): Terms {
  const base = settings.defaults;
  const mode =
    permits === null
      ? oneOf("mode", options.mode ?? "exclusive", ["exclusive", "shared"])
      : "permits";
  if (!declared.modes.includes(mode))
    throw new UnsupportedError(
      [`This driver has no mode "${mode}".`, declared.refusals?.[mode] ?? ""].join(" ").trim(),
    );
  if (options.ttl !== undefined && declared.liveness === "session")
    throw new InvalidArgumentError(
      "Expected no `ttl` per call: on this driver the ttl is the session's, set it on the manager.",
    );
  const ttlMs = options.ttl === undefined ? base.ttlMs : parseTtl(options.ttl, declared);
  const own = options.label !== undefined || options.metadata !== undefined;
  const holder = own
    ? holderOf(
        { name: base.holder.host, pid: base.holder.pid },
        options.label ?? base.holder.label,
        options.metadata ?? base.holder.metadata,
      )
    : base.holder;
  checkSignal(options.signal);
  return {
    mode,
    permits: permits ?? 1,
    ttlMs,
    waitMs: options.wait === undefined ? base.waitMs : parseWait(options.wait),
    lockDelayMs:
      options.lockDelay === undefined
        ? base.lockDelayMs
        : parseDuration("lockDelay", options.lockDelay, DELAY),
    keepalive:
      options.keepalive === undefined
        ? base.keepalive
        : oneOf("keepalive", options.keepalive, ["auto", "progress", "off"]),
    maxHoldMs:
      options.maxHold === undefined
        ? base.maxHoldMs
        : parseDuration("maxHold", options.maxHold, TTL),
    requestTimeoutMs: settings.requestTimeoutMs ?? Math.min(ttlMs / 3, 5000),
    above: checkAbove(options.above, declared),
    marginRatio: base.marginRatio,
    holder,
    holderText: own ? encodeHolder(holder) : base.holderText,
  };
}

function checkSignal(signal: unknown): void {
  if (signal === undefined) return;
  if (
    typeof signal === "object" &&
    signal !== null &&
    "aborted" in signal &&
    "addEventListener" in signal
  )
    return;
  throw new InvalidArgumentError(`Expected \`signal\` to be an AbortSignal, got ${show(signal)}.`);
}

function checkAbove(above: unknown, declared: Declaration): bigint | undefined {
  if (above === undefined) return undefined;
  if (typeof above !== "bigint" || above < 0n || above >= MAX_TOKEN)
    throw new InvalidArgumentError(
      `Expected \`above\` to be a bigint from 0 to 2^62 - 2, got ${show(above)}.`,
    );
  if (declared.fencing === "none")
    throw new UnsupportedError("This driver mints no tokens, so none can exceed `above`.");
  return above;
}

/** The number of permits of a semaphore. @throws InvalidArgumentError */
export function parsePermits(permits: unknown): number {
  if (
    typeof permits !== "number" ||
    !Number.isInteger(permits) ||
    permits < 1 ||
    permits > 1_000_000
  )
    throw new InvalidArgumentError(
      `Expected \`permits\` to be a whole number from 1 to 1,000,000, got ${show(permits)}.`,
    );
  return permits;
}

/** Whether a lease on the one terms serves a waiter on the other as well. */
export function sameTerms(a: Terms, b: Terms): boolean {
  return (
    a === b ||
    (a.mode === b.mode &&
      a.permits === b.permits &&
      a.ttlMs === b.ttlMs &&
      a.lockDelayMs === b.lockDelayMs &&
      a.keepalive === b.keepalive &&
      a.maxHoldMs === b.maxHoldMs &&
      a.above === undefined &&
      b.above === undefined &&
      a.holderText === b.holderText)
  );
}
