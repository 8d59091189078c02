import { type Letter, ranked, type Share, type Waiter } from "./redis-lock-state.ts";
import type { Step } from "./redis-lock-step.ts";

/** What a script returns, as the protocol has it. */
export type Reply = number | string | readonly Reply[];

/** A script over the keys of one name. */
export type Script = (step: Step, args: readonly string[]) => Reply;

/** What an acquisition asks for. */
interface Ask {
  readonly id: string;
  readonly mode: Letter;
  readonly permits: number;
  readonly ttlMs: number;
  readonly delayMs: number;
  readonly join: string;
  readonly tokens: number;
  readonly above: string;
  readonly channel: string;
  readonly holder: string;
}

function askOf(args: readonly string[]): Ask {
  const [id = "", mode, permits, ttl, delay, join = "", tokens, above = "", channel = ""] = args;
  return {
    id,
    mode: mode as Letter,
    permits: Number(permits),
    ttlMs: Number(ttl),
    delayMs: Number(delay),
    join,
    tokens: Number(tokens),
    above,
    channel,
    holder: args[9] ?? "",
  };
}

/** The most who may wait for one name. */
const LONGEST_LINE = 10_000;
const OFFER_MS = 3000;

const USED_UP: Reply = [4];
const VANISHED: Reply = [2];

/** The lease that this id has already, for longer. */
function renewed(step: Step, { id, ttlMs, delayMs }: Ask): Reply | null {
  const { live } = step;
  if (live?.id !== id) return null;
  step.lock.lease = { ...live, endsAt: step.longer(live.endsAt, ttlMs), delayMs, ttlMs };
  step.keep(ttlMs + delayMs);
  return [1, String(live.first), live.count, live.over, live.before, ttlMs, 0];
}

/** The share that this id has already, for longer. */
function sharedOn(step: Step, { id, ttlMs, delayMs }: Omit<Ask, "mode">): Reply | null {
  const own = step.liveShare(id);
  if (own === null) return null;
  step.enter({ ...own, endsAt: step.longer(own.endsAt, ttlMs), delayMs, ttlMs });
  return [1, String(own.first ?? ""), 1, own.over, own.before, ttlMs];
}

/** `alone`: nobody else is at this name, nor was lately. */
function exclusive(step: Step, ask: Ask, alone: boolean): Reply {
  const minted = step.mint(ask.tokens, ask.above);
  if (minted === null) return USED_UP;
  const { lock, before, now } = step;
  const vanished = lock.lease !== null && step.free;
  const over = vanished || lock.abandoned ? 1 : 0;
  const [first, last] = minted;
  const { id, ttlMs, delayMs, holder, tokens: count } = ask;
  const term = { endsAt: now + ttlMs, delayMs, ttlMs, sinceMs: now };
  lock.lease = { id, ...term, first, count, over, before, holder };
  lock.last = last;
  lock.raised = null;
  lock.abandoned = false;
  if (alone) lock.aside = false;
  step.keep(ttlMs + delayMs);
  return [1, String(first), count, over, before, ttlMs, alone ? 1 : 0];
}

/** A shared lease, or a permit, which has no token. */
function shared(step: Step, ask: Ask, over: number): Reply {
  const { id, mode, ttlMs, delayMs, holder } = ask;
  const { before, now } = step;
  let first: bigint | null = null;
  if (mode === "s") {
    const minted = step.mint(1, ask.above);
    if (minted === null) return USED_UP;
    [first] = minted;
    step.lock.last = first;
  }
  const term = { endsAt: now + ttlMs, delayMs, ttlMs, sinceMs: now };
  step.enter({ kind: "share", id, ...term, mode, first, over, before, holder });
  step.lock.mode = mode;
  step.keep(ttlMs + delayMs);
  return [1, String(first ?? ""), 1, over, before, ttlMs];
}

/** A semaphore has one count for all who use it: the other count, where this ask has another one. */
function mismatch(step: Step, { id, permits }: Ask): Reply | null {
  const { lock, queue, occupants } = step.name;
  const count = lock?.permits ?? 0;
  if (count === permits) return null;
  const awaited = (): boolean =>
    [...queue.keys()].some((each) => {
      const other = step.waiter(each);
      return other?.mode === "p" && other.aliveUntil > step.now;
    });
  if (count !== 0 && ((occupants.size > 0 && lock?.mode === "p") || awaited())) {
    if (step.waiter(id) !== null) step.leave(id);
    return [3, count];
  }
  step.lock.permits = permits;
  step.keep(0);
  return null;
}

type Place = ReturnType<Step["hear"]>;

/** A place at the end of the line. */
function queued(step: Step, { id, mode, ttlMs, channel, holder }: Ask): Place {
  step.lock.arrivals = (step.lock.arrivals ?? 0) + 1;
  const arrival = step.lock.arrivals;
  const waiter = { kind: "waiter", id, arrival, mode, ttlMs, channel, holder } as const;
  const place = step.hear({ ...waiter, aliveUntil: 0, offerUntil: 0 });
  step.keep(0);
  step.sweep();
  return place;
}

interface Obstacle {
  readonly by: "lease" | "lock-delay" | "queue";
  readonly holder: string;
  /** When it may be over but for those before. */
  readonly waitMs: number;
}

function oldest(step: Step, but: string): string {
  const alive = ranked(step.name.queue)
    .slice(0, 21)
    .map(([id]) => (id === but ? null : step.waiter(id)))
    .find((waiter) => waiter !== null && waiter.aliveUntil > step.now);
  return alive?.holder ?? "";
}

function obstacle(step: Step, { id, mode }: Ask): Obstacle {
  const { now } = step;
  const { lock, occupants } = step.name;
  const lease = lock?.lease ?? null;
  if (lease !== null) {
    const by = lease.endsAt > now ? "lease" : "lock-delay";
    return { by, holder: lease.holder, waitMs: lease.endsAt + lease.delayMs - now };
  }
  const all = ranked(occupants);
  const last = all.at(-1)?.[1] ?? now;
  const shares = all.filter(([each]) => step.waiter(each) === null);
  if (shares.length === 0) return { by: "queue", holder: oldest(step, id), waitMs: last - now };
  const semaphore = mode === "p" && lock?.mode === "p";
  const waitMs = (semaphore ? (all[0]?.[1] ?? now) : last) - now;
  const fits = lock?.mode === mode && (!semaphore || shares.length < (lock.permits ?? 0));
  if (fits) return { by: "queue", holder: oldest(step, id), waitMs };
  const living = shares.map(([each]) => step.liveShare(each)).find((share) => share !== null);
  return { by: living ? "lease" : "lock-delay", holder: living?.holder ?? "", waitMs };
}

function busy(step: Step, ask: Ask, place: Place | null): Reply {
  const { by, holder, waitMs } = obstacle(step, ask);
  const rank = place?.rank ?? Math.min(step.name.queue.size, 100);
  const offers = [...step.name.occupants].filter(([each]) => step.waiter(each) !== null);
  const again =
    step.name.lock?.lease || offers.length === 0
      ? waitMs + rank * Math.min(ask.ttlMs, OFFER_MS)
      : Math.max(...offers.map(([, until]) => until)) - step.now + Math.max(0, rank - 1) * 50;
  return [0, place === null ? 0 : 1, by, holder, Math.max(1, again), place?.keepMs ?? -1];
}

export const attempt: Script = (step, args) => {
  const ask = askOf(args);
  const { id, mode, join } = ask;
  const { queue, occupants, records } = step.name;
  if (queue.size + occupants.size + records.size === 0) {
    const mine = renewed(step, ask);
    if (mine !== null) return mine;
    if (mode === "e" && join !== "kept" && step.free) return exclusive(step, ask, true);
  }
  const tomb = records.get(id);
  if (tomb?.kind === "tomb" && tomb.until > step.now) return VANISHED;
  step.settle();
  const mine = renewed(step, ask) ?? sharedOn(step, ask);
  if (mine !== null) return mine;
  let waiter: Waiter | null = step.waiter(id);
  if (join === "kept" && waiter === null) return VANISHED;
  if (mode === "p") {
    const other = mismatch(step, ask);
    if (other !== null) return other;
  }
  let place = waiter === null ? null : step.hear(waiter);
  const nobody = step.offer(id);
  const offered = waiter !== null && occupants.has(id);
  if (offered || (waiter === null && nobody && step.room(mode))) {
    if (waiter !== null) step.leave(id);
    if (mode === "e") return exclusive(step, ask, false);
    return shared(step, ask, step.lock.abandoned ? 1 : 0);
  }
  if (waiter !== null && join === "no") {
    step.leave(id);
    [waiter, place] = [null, null];
  } else if (waiter === null && join === "yes" && queue.size < LONGEST_LINE)
    place = queued(step, ask);
  return busy(step, ask, place);
};

/** Gives the share of `from` to another id. */
function exchangedShare(step: Step, from: string, old: Share, ask: Omit<Ask, "mode">): Reply {
  const { before } = step;
  let first: bigint | null = null;
  if (old.mode === "s") {
    const minted = step.mint(1, ask.above);
    if (minted === null) return USED_UP;
    [first] = minted;
    step.lock.last = first;
  }
  step.leave(from);
  const { id, ttlMs, delayMs, holder } = ask;
  const term = { endsAt: step.now + ttlMs, delayMs, ttlMs, sinceMs: step.now };
  const { mode } = old;
  step.enter({ kind: "share", id, ...term, mode, first, over: 0, before, holder });
  step.lock.mode = mode;
  step.keep(ttlMs + delayMs);
  step.bury(from, Math.max(ttlMs, 60_000), false);
  return [1, String(first ?? ""), 1, 0, before, ttlMs];
}

export const exchange: Script = (step, args) => {
  const [from = "", id = "", ttl, delay, count, above = "", holder = ""] = args;
  const terms = { ttlMs: Number(ttl), delayMs: Number(delay), tokens: Number(count), above };
  const ask = { id, ...terms, mode: "e", permits: 1, join: "no", channel: "", holder } as const;
  step.settle();
  const again = renewed(step, ask);
  // Nothing is said here of whether there is more to look at.
  if (again !== null) return (again as readonly Reply[]).slice(0, 6);
  const same = sharedOn(step, ask);
  if (same !== null) return same;
  const { live, before, now } = step;
  const old = step.liveShare(from);
  if (live?.id === from) {
    const minted = step.mint(ask.tokens, above);
    if (minted === null) return USED_UP;
    const [first, last] = minted;
    const { ttlMs, delayMs, tokens } = ask;
    const term = { endsAt: now + ttlMs, delayMs, ttlMs, sinceMs: now };
    step.lock.lease = { id, ...term, first, count: tokens, over: 0, before, holder };
    step.lock.last = last;
    step.keep(ttlMs + delayMs);
    step.bury(from, Math.max(ttlMs, 60_000), false);
    return [1, String(first), tokens, 0, before, ttlMs];
  }
  return old === null ? [0, step.why(from)] : exchangedShare(step, from, old, ask);
};
