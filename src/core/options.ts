import type { Declaration, Requirements } from "./capabilities.ts";
import { parseDuration, show } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import { encodeHolder } from "./holder.ts";
import type { ManagerOptions } from "./lock-manager.ts";
import { checkName } from "./lock-name.ts";
import { checkOptions, MANAGER_OPTIONS } from "./option-names.ts";
import {
  DELAY,
  flag,
  holderOf,
  oneOf,
  parseTtl,
  parseWait,
  SHORT,
  TTL,
  WAIT,
} from "./option-values.ts";
import { checkKeys, type SequencerKey } from "./sequencer.ts";
import type { Terms } from "./terms.ts";

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
