import type { Declaration, Mode } from "./capabilities.ts";
import { parseDuration } from "./duration.ts";
import { InvalidArgumentError, UnsupportedError } from "./errors.ts";
import { encodeHolder, type Holder } from "./holder.ts";
import type { AcquireOptions, Keepalive } from "./lock-manager.ts";
import {
  checkAbove,
  checkSignal,
  DELAY,
  holderOf,
  oneOf,
  parseTtl,
  parseWait,
  TTL,
} from "./option-values.ts";

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

/** The terms of one call: its options over the manager's defaults. @throws InvalidArgumentError, UnsupportedError */
export function termsOf(
  options: AcquireOptions,
  settings: { readonly defaults: Terms; readonly requestTimeoutMs: number | undefined },
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
