import { InvalidArgumentError } from "../../core/errors.ts";

/** How a Redlock driver is set up. */
export interface RedlockDriverOptions {
  /**
   * How many servers must agree (default: a majority). With N servers and a quorum of q, exclusion and rising tokens
   * survive up to 2q − N − 1 servers that forget (a restart without disk, an eviction, a stepped clock), counted since the
   * name's last grant; N − q may be down. More than N / 2, at most N.
   */
  readonly quorum?: number;
  /**
   * How long one server has for one answer, in milliseconds, from 1 (default: half of the manager's `requestTimeout`, the
   * most in any case). A server that is silent for so long counts as down for this attempt; once a quorum decided, nobody
   * waits for it.
   */
  readonly nodeTimeoutMs?: number;
  /**
   * After a split vote the next try comes after half to one and a half times this, at random, in milliseconds, from 1
   * (default 100): without chance, those who split the votes would do so again.
   */
  readonly retryDelayMs?: number;
  /**
   * By how much the clocks of the servers and of this host may run apart, as a share of the ttl, 0 to 0.2 (default 0.01).
   * That, and 2 ms, is taken off what a grant has left when its last answer is there.
   */
  readonly driftRatio?: number;
  /**
   * The locks only save work (default false): no fencing tokens, in types and in values, and servers that may evict
   * what is held are accepted.
   */
  readonly efficiencyOnly?: boolean;
}

/** The options, checked. */
export interface Checked {
  readonly quorum: number;
  readonly nodeTimeoutMs: number;
  readonly retryDelayMs: number;
  readonly driftRatio: number;
  readonly efficiencyOnly: boolean;
}

const KNOWN = ["quorum", "nodeTimeoutMs", "retryDelayMs", "driftRatio", "efficiencyOnly"];

/** How many servers may forget before two quorums may share none that remembers. */
export function survives(servers: number, quorum: number): number {
  return 2 * quorum - servers - 1;
}

/** @throws InvalidArgumentError that names the option, with the arithmetic where it is the quorum */
export function checkOptions(options: RedlockDriverOptions, servers: number): Checked {
  for (const key of Object.keys(options))
    if (!KNOWN.includes(key))
      throw new InvalidArgumentError(
        `Expected only known options (${KNOWN.join(", ")}), got \`${key}\`.`,
      );
  const majority = Math.floor(servers / 2) + 1;
  return {
    quorum: quorumOf(options.quorum ?? majority, servers),
    nodeTimeoutMs: numberIn("nodeTimeoutMs", options.nodeTimeoutMs ?? 60_000, 1, 60_000),
    retryDelayMs: numberIn("retryDelayMs", options.retryDelayMs ?? 100, 1, 60_000),
    driftRatio: numberIn("driftRatio", options.driftRatio ?? 0.01, 0, 0.2),
    efficiencyOnly: options.efficiencyOnly ?? false,
  };
}

function quorumOf(quorum: unknown, servers: number): number {
  if (servers < 3)
    throw new InvalidArgumentError(
      `Expected the clients of at least 3 independent servers, got ${servers}: the quorum would be ${Math.floor(servers / 2) + 1} of ${servers}, which no server may miss, so it is less available than one server with \`redisDriver\` and no safer.`,
    );
  if (typeof quorum !== "number" || !Number.isInteger(quorum) || quorum > servers || quorum < 1)
    throw new InvalidArgumentError(
      `Expected \`quorum\` to be a whole number of at most ${servers}, got ${JSON.stringify(quorum)}.`,
    );
  if (2 * quorum <= servers)
    throw new InvalidArgumentError(
      `Expected \`quorum\` to be more than half of the ${servers} servers, got ${quorum}: ${quorum} + ${quorum} = ${2 * quorum} is not more than ${servers}, so two holders could have ${quorum} servers each and none in common. Use ${Math.floor(servers / 2) + 1} or more.`,
    );
  return quorum;
}

function numberIn(name: string, value: unknown, min: number, max: number): number {
  if (typeof value !== "number" || !(value >= min && value <= max))
    throw new InvalidArgumentError(
      `Expected \`${name}\` to be a number from ${min} to ${max}, got ${JSON.stringify(value)}.`,
    );
  return value;
}

/** Why there are no other modes, with the arithmetic. */
export function refusals(
  servers: number,
  quorum: number,
): { readonly shared: string; readonly permits: string } {
  const holders = Math.floor((2 * servers) / quorum);
  return {
    permits: `A semaphore over a quorum lets in too many: ${servers} servers with 2 permits each are ${2 * servers} places, a holder takes ${quorum} of them, so ${holders} could hold one of 2 permits${holders > 2 ? "" : " while a server that is down keeps even two of them out"}. Use \`redisDriver\` on one server for semaphores.`,
    shared: `Readers over a quorum would have to be counted on each server, and ${servers - quorum} of ${servers} servers may miss any of them. Use \`redisDriver\` on one server for shared leases.`,
  };
}
