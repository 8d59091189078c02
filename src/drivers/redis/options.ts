import { InvalidArgumentError } from "../../core/errors.ts";

/** How a Redis driver is set up. */
export interface RedisDriverOptions {
  /**
   * How many replicas must acknowledge each grant and each renewal before it counts (default 0: none). `"all"`: every
   * one that is connected, and at least `expectedReplicas`. A grant that too few have is undone and refused. It narrows
   * the window in which a failover loses a grant; it is not consensus, and a promoted replica may still lack it.
   */
  readonly replicas?: number | "all";
  /** With `replicas: "all"`, how many there are when all is well: all that are *connected* can be none. At least 1. */
  readonly expectedReplicas?: number;
  /** How long the replicas have, in milliseconds (default 1000). A shorter limit of the call itself comes first. */
  readonly replicaTimeoutMs?: number;
  /**
   * The locks only save work (default false): no fencing tokens, in types and in values, and servers that may evict
   * what is held are accepted.
   */
  readonly efficiencyOnly?: boolean;
}

/** The options, checked. */
export interface Checked {
  /** 0: replicas are not waited for. */
  readonly needed: number;
  readonly all: boolean;
  readonly replicaTimeoutMs: number;
  readonly efficiencyOnly: boolean;
}

const KNOWN = ["replicas", "expectedReplicas", "replicaTimeoutMs", "efficiencyOnly"];

function wholeFrom(name: string, value: unknown, min: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min)
    throw new InvalidArgumentError(
      `Expected \`${name}\` to be a whole number from ${min}, got ${JSON.stringify(value)}.`,
    );
  return value;
}

/** @throws InvalidArgumentError that names the option */
export function checkOptions(options: RedisDriverOptions): Checked {
  for (const key of Object.keys(options))
    if (!KNOWN.includes(key))
      throw new InvalidArgumentError(
        `Expected only known options (${KNOWN.join(", ")}), got \`${key}\`.`,
      );
  const { replicas = 0, expectedReplicas, efficiencyOnly = false } = options;
  const all = replicas === "all";
  if (all && expectedReplicas === undefined)
    throw new InvalidArgumentError(
      'Expected `expectedReplicas` beside `replicas: "all"`: all that are connected can be none.',
    );
  if (!all && expectedReplicas !== undefined)
    throw new InvalidArgumentError('Expected `expectedReplicas` only beside `replicas: "all"`.');
  return {
    needed: all
      ? wholeFrom("expectedReplicas", expectedReplicas, 1)
      : wholeFrom("replicas", replicas, 0),
    all,
    replicaTimeoutMs: wholeFrom("replicaTimeoutMs", options.replicaTimeoutMs ?? 1000, 1),
    efficiencyOnly,
  };
}
