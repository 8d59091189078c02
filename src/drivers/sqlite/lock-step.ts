import type { Mode } from "../../core/capabilities.ts";
import type { Ask, Busy, Granted } from "../../core/driver.ts";
import { DriverError } from "../../core/driver.ts";
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { Step } from "./step.ts";
import type { LockRow, ShareRow, ShareSums, WaiterRow } from "./tables.ts";

/** The longest that a free lock is kept for one waiter. */
const OFFER_MS = 3000;
/** Ranks are counted no further: it would hardly change when whoever stands behind asks again. */
const MAX_RANK = 100;
/** Once an offer has ended, each waiter asks so long after the one before it: the nearest that lives is the first. */
const NEXT_ASK_MS = 50;
const NO_SHARES: ShareSums = { shared: 0, permits: 0, soonest: null, latest: null, expires: null };
/** Above every place in a queue. */
export const END_OF_QUEUE: number = 2 ** 52;

/** A lock's row as this step changes it. */
interface Lock {
  permits: number;
  grant: string | null;
  holder: string | null;
  ttl: number;
  delay: number;
  expires: number;
  wallEnd: number;
  since: number;
  first: bigint;
  last: bigint;
  counter: bigint;
  previous: bigint | null;
  abandoned: 0 | 1;
  freed: number;
}

/** One name inside a transaction: read, brought up to now, changed, and written back by `save`. */
export class LockStep {
  readonly #step: Step;
  readonly #key: string;
  readonly #lock: Lock;
  #shares: ShareSums = NO_SHARES;
  /** Shares or waiters may exist; without them most questions need no statement. */
  #crowded: boolean;
  #changed = false;

  constructor(step: Step, name: string) {
    this.#step = step;
    this.#key = step.store.key(name);
    const row = step.get(step.sql.lock, { key: this.#key });
    this.#lock = fromRow(row);
    this.#crowded = row?.state === 2;
    if (this.#crowded) {
      step.run(step.sql.dropSpentShares, { key: this.#key, now: step.now });
      this.#readShares();
    }
    if (this.#lock.grant !== null && this.#soleEnd <= step.now) this.#vacate(1);
  }

  /** Whether another grant than this id's holds the name exclusively now. */
  isTakenFrom(grantId: string): boolean {
    const { grant, expires } = this.#lock;
    return grant !== null && grant !== grantId && expires > this.#step.now;
  }

  /** Whether this id's exclusive lease stands. */
  isSole(grantId: string): boolean {
    return this.#lock.grant === grantId && this.#lock.expires > this.#step.now;
  }

  share(grantId: string): ShareRow | undefined {
    if (!this.#crowded) return undefined;
    const row = this.#step.get(this.#step.sql.share, { key: this.#key, grant: grantId });
    return row !== undefined && row.expires > this.#step.now ? row : undefined;
  }

  waiter(grantId: string): WaiterRow | undefined {
    if (!this.#crowded) return undefined;
    return this.#step.get(this.#step.sql.waiter, { key: this.#key, grant: grantId });
  }

  /**
   * Starts the ttl of a grant that stands again, and tells what it was told before; `undefined` when there is none. Never
   * ends it sooner: this may be a late packet, and the holder have renewed for longer since.
   */
  restart(ask: Ask): Granted | undefined {
    const until = this.#step.now + ask.ttlMs;
    if (this.isSole(ask.grantId)) {
      if (until > this.#lock.expires) {
        Object.assign(this.#lock, this.#terms(ask));
        this.#changed = true;
      }
      const { first, last, abandoned, previous } = this.#lock;
      return granted(ask, { first, count: Number(last - first) + 1 }, abandoned, previous);
    }
    const share = this.share(ask.grantId);
    if (share === undefined) return undefined;
    const terms = { ...this.#terms(ask), key: this.#key, grant: ask.grantId, now: this.#step.now };
    if (until > share.expires) this.#step.run(this.#step.sql.renewShare, terms);
    const tokens = share.first === null ? null : { first: BigInt(share.first), count: 1 };
    return granted(ask, tokens, share.abandoned, big(share.previous));
  }

  /** The count that users of a semaphore rely on when it is not `permits`; `null` when all agree. */
  disagrees(permits: number): number | null {
    const { now, sql } = this.#step;
    let stored = this.#shares.permits > 0 ? this.#lock.permits : undefined;
    if (stored === undefined && this.#crowded)
      stored = this.#step.get(sql.semaphore, { key: this.#key, now })?.permits;
    if (stored !== undefined && stored !== permits) return stored;
    this.#lock.permits = permits;
    return null;
  }

  /** Offers that nobody took are over; `asking` is here right now, so it did not miss its own. */
  missOffers(asking: string): void {
    if (!this.#crowded) return;
    const { now, sql } = this.#step;
    this.#step.run(sql.missOffers, { key: this.#key, now, but: asking });
  }

  /** How many live waiters stand before a place, and how many of them a shared ask must not overtake. */
  ahead(seq: number): { readonly ahead: number; readonly barring: number } {
    const none = { ahead: 0, barring: 0 };
    if (!this.#crowded) return none;
    const { now, sql } = this.#step;
    return this.#step.get(sql.ahead, { key: this.#key, seq, now }) ?? none;
  }

  /** Whether an ask with these waiters before it gets in. */
  hasRoom(mode: Mode, place: { readonly ahead: number; readonly barring: number }): boolean {
    if (mode === "shared") return this.#slots(mode) > 0 && place.barring === 0;
    return place.ahead < this.#slots(mode);
  }

  /** Gives the name to an ask that `hasRoom`. */
  grant(ask: Ask, waiter: WaiterRow | undefined): Granted {
    const lock = this.#lock;
    const previous = lock.last === 0n ? null : lock.last;
    const { abandoned } = lock;
    const count = ask.mode === "exclusive" ? ask.tokens : 1;
    const first = ask.mode === "permits" ? null : this.#mint(count, ask.above);
    if (waiter !== undefined) this.leave(ask.grantId);
    const terms = { ...this.#terms(ask), holder: ask.holder, since: this.#step.wall, previous };
    if (ask.mode === "exclusive") Object.assign(lock, terms, { grant: ask.grantId });
    else {
      const share = { ...terms, key: this.#key, grant: ask.grantId, mode: ask.mode, first };
      this.#step.run(this.#step.sql.putShare, { ...share, abandoned });
      this.#crowded = true;
      this.#readShares();
    }
    this.#changed = true;
    return granted(ask, first === null ? null : { first, count }, abandoned, previous);
  }

  /** Gives the grant of `from` to the ask, with larger tokens; `undefined` when `from` does not stand in that mode. */
  exchange(from: string, ask: Ask): Granted | undefined {
    if (ask.mode === "exclusive" && this.isSole(from)) this.#vacate(0);
    else if (this.share(from)?.mode === ask.mode) this.#dropShare(from);
    else return undefined;
    return this.grant(ask, undefined);
  }

  /** Adds an entry at the end of the queue. */
  join(ask: Ask, keepMs: number): void {
    const { sql, now, store } = this.#step;
    this.#step.run(sql.join, {
      key: this.#key,
      grant: ask.grantId,
      host: store.host,
      mode: ask.mode,
      permits: ask.permits,
      holder: ask.holder,
      ttl: ask.ttlMs,
      keep: keepMs,
      until: now + keepMs,
    });
    this.#crowded = true;
    this.#changed = true;
  }

  /** How many entries the queue has, dead ones included. */
  queueLength(): number {
    return this.#step.get(this.#step.sql.queueLength, { key: this.#key })?.n ?? 0;
  }

  /** Forgets entries that have been dead since `before`. */
  forgetDead(before: number): void {
    const range = { from: this.#key, to: this.#key };
    this.#step.run(this.#step.sql.dropDeadWaiters, { ...range, dead: before });
  }

  heard(waiter: WaiterRow, keepMs: number): void {
    const { sql, now } = this.#step;
    const until = now + keepMs;
    this.#step.run(sql.heard, { key: this.#key, seq: waiter.seq, keep: keepMs, until });
  }

  /** Starts the time of a queued entry again. */
  renewWaiter(grantId: string): boolean {
    if (!this.#crowded) return false;
    const { sql, now } = this.#step;
    return this.#step.run(sql.renewWaiter, { key: this.#key, grant: grantId, now }) > 0;
  }

  /** Takes an entry out of the queue. */
  leave(grantId: string): boolean {
    if (!this.#crowded) return false;
    const left = this.#step.run(this.#step.sql.leave, { key: this.#key, grant: grantId }) > 0;
    this.#changed ||= left;
    return left;
  }

  /** Ends a grant that stands, by its own holder. */
  release(grantId: string, raiseTo: bigint | undefined): boolean {
    if (this.isSole(grantId)) this.#vacate(0);
    else if (this.share(grantId) !== undefined) this.#dropShare(grantId);
    else return false;
    if (raiseTo !== undefined && raiseTo > this.#lock.counter)
      this.#lock.counter = raiseTo < MAX_TOKEN ? raiseTo : MAX_TOKEN;
    return true;
  }

  /** Ends a grant against its holder's will: at once, or so that its lock-delay runs from now. Answers its ttl. */
  revoke(grantId: string, atOnce: boolean): number | null {
    const { sql, now } = this.#step;
    const lock = this.#lock;
    if (lock.grant === grantId) {
      const { ttl, delay } = lock;
      if (lock.expires <= now && !atOnce) return null;
      if (atOnce || delay === 0) this.#vacate(1);
      else lock.expires = now;
      this.#changed = true;
      return ttl;
    }
    const own = { key: this.#key, grant: grantId };
    const share = this.#crowded ? this.#step.get(sql.share, own) : undefined;
    if (share === undefined || (share.expires <= now && !atOnce)) return null;
    if (atOnce) this.#step.run(sql.dropShare, own);
    else this.#step.run(sql.cutShare, { ...own, now });
    // One without lock-delay is spent by now.
    this.#step.run(sql.dropSpentShares, { key: this.#key, now });
    this.#readShares();
    this.#changed = true;
    return share.ttl_ms;
  }

  /**
   * Why an ask does not get in, who is in its way, and when to ask again: after the offers that run, which may be to the
   * dead, since an ask is what passes a lapsed one on; else when there is room, and each one ahead has let an offer pass.
   */
  obstacle(ask: Ask, ahead: number): Pick<Busy, "blockedBy" | "holder" | "askAgainMs"> {
    const { now } = this.#step;
    const lock = this.#lock;
    const before = Math.min(ahead, MAX_RANK);
    const askAgain = (at: number): number =>
      Math.max(1, at - now + before * Math.min(ask.ttlMs, OFFER_MS));
    if (lock.grant !== null) {
      const blockedBy = lock.expires > now ? "lease" : "lock-delay";
      return { blockedBy, holder: lock.holder, askAgainMs: askAgain(this.#soleEnd) };
    }
    const { permits, soonest, latest, expires } = this.#shares;
    const step = this.#step;
    if (this.#slots(ask.mode) > 0) {
      const head = step.get(step.sql.head, { key: this.#key, now });
      const until = step.get(step.sql.offersEnd, { key: this.#key })?.until ?? null;
      // Nobody has an offer where a reader waits for a writer, and that one for the last reader.
      const askAgainMs =
        until === null
          ? askAgain(latest ?? now)
          : Math.max(1, until - now + Math.max(0, before - 1) * NEXT_ASK_MS);
      return { blockedBy: "queue", holder: head?.holder ?? null, askAgainMs };
    }
    const living = step.get(step.sql.shares, { key: this.#key, now });
    const blockedBy = (expires ?? 0) > now ? "lease" : "lock-delay";
    const free = (ask.mode === "permits" && permits > 0 ? soonest : latest) ?? now;
    return { blockedBy, holder: living?.holder ?? null, askAgainMs: askAgain(free) };
  }

  /** Offers what is free to the head of the queue, and notes whom to wake. The last step before `save`. */
  makeOffers(): void {
    if (!this.#crowded) return;
    const { now, sql } = this.#step;
    const head = this.#step.get(sql.head, { key: this.#key, now });
    if (head === undefined) return;
    const slots = this.#slots(head.mode);
    if (slots === 0) {
      this.#step.run(sql.withdrawOffers, { key: this.#key });
      return;
    }
    const terms = { key: this.#key, now, longest: OFFER_MS };
    const offered =
      head.mode === "shared"
        ? this.#step.all(sql.offerShared, terms)
        : this.#step.all(sql.offerHead, { ...terms, slots });
    for (const { host } of offered) this.#step.rings.add(host);
  }

  /** Writes the row back, if anything about it changed. */
  save(): void {
    if (!this.#changed) return;
    this.#step.run(this.#step.sql.putLock, { key: this.#key, ...this.#lock });
  }

  get #soleEnd(): number {
    return this.#lock.expires + this.#lock.delay;
  }

  /** How many asks of this mode the holders leave room for. A holder's lock-delay keeps its place. */
  #slots(mode: Mode): number {
    const { shared, permits } = this.#shares;
    if (this.#lock.grant !== null) return 0;
    if (mode === "permits") return shared > 0 ? 0 : Math.max(0, this.#lock.permits - permits);
    if (mode === "shared") return permits > 0 ? 0 : Number.MAX_SAFE_INTEGER;
    return shared + permits > 0 ? 0 : 1;
  }

  #vacate(abandoned: 0 | 1): void {
    const gone = { grant: null, holder: null, abandoned, freed: this.#step.now };
    Object.assign(this.#lock, gone);
    this.#changed = true;
  }

  #dropShare(grantId: string): void {
    this.#step.run(this.#step.sql.dropShare, { key: this.#key, grant: grantId });
    this.#readShares();
    this.#lock.freed = this.#step.now;
    this.#changed = true;
  }

  #readShares(): void {
    this.#shares = this.#step.get(this.#step.sql.shareSums, { key: this.#key }) ?? NO_SHARES;
  }

  #terms(ask: Ask): { ttl: number; delay: number; expires: number; wallEnd: number } {
    const { now, wall } = this.#step;
    const { ttlMs, lockDelayMs } = ask;
    return { ttl: ttlMs, delay: lockDelayMs, expires: now + ttlMs, wallEnd: wall + ttlMs };
  }

  #mint(count: number, above: bigint | undefined): bigint {
    const lock = this.#lock;
    const first = [this.#step.floor + 1n, lock.counter + 1n, (above ?? 0n) + 1n].reduce(
      (least, other) => (other > least ? other : least),
      this.#step.wallMicros,
    );
    const last = first + BigInt(count - 1);
    if (last > MAX_TOKEN)
      throw new DriverError("config", "not-applied", "The fencing tokens of this name are used up");
    Object.assign(lock, { first, last, counter: last });
    return first;
  }
}

function fromRow(row: LockRow | undefined): Lock {
  return {
    permits: row?.permits ?? 1,
    grant: row?.grant_id ?? null,
    holder: row?.holder ?? null,
    ttl: row?.ttl_ms ?? 0,
    delay: row?.delay_ms ?? 0,
    expires: row?.expires ?? 0,
    wallEnd: row?.wall_end ?? 0,
    since: row?.since ?? 0,
    first: BigInt(row?.first ?? 0),
    last: BigInt(row?.last ?? 0),
    counter: BigInt(row?.counter ?? 0),
    previous: big(row?.previous ?? null),
    abandoned: row?.abandoned === 1 ? 1 : 0,
    freed: row?.freed ?? 0,
  };
}

/** A token as the statements read it. */
export function big(text: string | null): bigint | null {
  return text === null ? null : BigInt(text);
}

/** The answer for a grant that stands. */
export function granted(
  ask: Ask,
  tokens: Granted["tokens"],
  abandoned: number,
  previousToken: bigint | null,
): Granted {
  return { kind: "granted", tokens, takenOver: abandoned === 1, previousToken, ttlMs: ask.ttlMs };
}
