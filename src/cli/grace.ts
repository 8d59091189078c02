import { showMs } from "../core/duration.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { marginMs } from "../core/validity.ts";

/** The share of the ttl that clocks may differ by; the manager's default, which the command never changes. */
const MARGIN_RATIO = 0.01;
const MAX_DEFAULT_GRACE_MS = 5000;
const MAX_LOCK_DELAY_MS = 60_000;

/** When a child has to go, counted back from the lease's deadline. */
export interface Grace {
  /** From TERM to KILL. */
  readonly graceMs: number;
  /** TERM comes so long before the lease's deadline: the grace, and a reserve for a late timer and the KILL itself. */
  readonly leadMs: number;
}

/**
 * The command's own deadline, as a distance from the lease's: a child that is told then has ended before anybody else
 * may enter. A lock-delay that covers grace and reserve keeps others out as long, so the whole ttl can be used.
 * @throws InvalidArgumentError when not even one renewal fits before the deadline; it says what to change
 */
export function planGrace(asked: {
  readonly ttlMs: number;
  readonly graceMs: number | undefined;
  readonly lockDelayMs: number;
}): Grace {
  const { ttlMs, lockDelayMs } = asked;
  const graceMs = asked.graceMs ?? Math.min(MAX_DEFAULT_GRACE_MS, Math.floor(ttlMs / 3));
  const needed = graceMs + reserveMs(ttlMs);
  if (lockDelayMs >= needed) return { graceMs, leadMs: 0 };
  if (fits(ttlMs, graceMs)) return { graceMs, leadMs: needed };
  throw new InvalidArgumentError(
    `A grace of ${showMs(graceMs)} does not fit a ttl of ${showMs(ttlMs)}: the command must have ended before the lease does, and a renewal must be possible before that. ${advice(ttlMs, graceMs)}`,
  );
}

/** For a timer that fires late, and for the KILL. */
function reserveMs(ttlMs: number): number {
  return Math.min(250, ttlMs / 10);
}

/** A lease is renewed after a third of its ttl: that has to come before the command's own deadline. */
function fits(ttlMs: number, graceMs: number): boolean {
  return ttlMs / 3 + graceMs + reserveMs(ttlMs) <= ttlMs - marginMs(ttlMs, MARGIN_RATIO);
}

function advice(ttlMs: number, graceMs: number): string {
  const most = Math.floor(ttlMs - marginMs(ttlMs, MARGIN_RATIO) - ttlMs / 3 - reserveMs(ttlMs));
  let least = Math.max(100, Math.ceil(ttlMs / 100) * 100);
  while (!fits(least, graceMs)) least += 100;
  const delay = Math.ceil(graceMs + reserveMs(ttlMs));
  const ways = [`--ttl ${short(least)} or more`];
  if (most > 0) ways.unshift(`--grace ${short(most)} or less`);
  if (delay <= MAX_LOCK_DELAY_MS) ways.push(`--lock-delay ${short(delay)} or more`);
  return `Use ${ways.join(", or ")}.`;
}

/** As one types it. */
function short(ms: number): string {
  return showMs(ms).replace(" ", "");
}
