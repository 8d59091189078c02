import type { Mode } from "../../core/capabilities.ts";
import {
  type Ask,
  type Busy,
  DriverError,
  type GoneReason,
  type Granted,
} from "../../core/driver.ts";
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { SeenWaiter, Sight } from "./sight.ts";
import type { Call, Statement } from "./statement.ts";

/** The longest that a free lock is kept for one waiter. */
export const OFFER_MS = 3000;
/** Ranks are counted no further: it would hardly change when whoever stands behind asks again. */
const MAX_RANK = 100;
/** Once an offer has ended, each waiter asks so long after the one before it: the nearest that lives is the first. */
const NEXT_ASK_MS = 50;

/** Statements on one name whose first parameter is its key. */
type KeyedStatement =
  | "dropSpent"
  | "renewShare"
  | "cutShare"
  | "dropShare"
  | "join"
  | "heard"
  | "leave"
  | "forgetDead"
  | "miss"
  | "withdraw"
  | "offer"
  | "bury";

/** What a step may write; the driver of a database says how. */
export type StepStatements = Readonly<
  Record<KeyedStatement | "putLock" | "putGrant" | "putShare", Statement>
> & {
  /** Tells the process of a waiter, as part of the transaction; without it `woken` says whom to tell afterwards. */
  readonly wake?: Statement;
};

type Shares = { -readonly [K in keyof Sight["shares"]]: Sight["shares"][K] };

/** An exclusive or shared grant, or a permit, that this step gives: its numbers are drawn as it is written. */
interface Given {
  readonly ask: Ask;
  readonly takenOver: boolean;
}

/**
 * One name inside a transaction that has its row: what was seen, brought up to now and changed. It decides only; what is
 * to be written is a list of statements.
 */
export class LockStep {
  readonly #sql: StepStatements;
  readonly #key: string;
  readonly #grantId: string;
  readonly #sight: Sight;
  /** The exclusive grant that has the name, in its lock-delay too. */
  #sole: { readonly id: string; rest: number; delay: number; ttl: number } | null;
  #permits: number;
  #abandoned: boolean;
  #raised: bigint;
  readonly #shares: Shares;
  #waiters: readonly SeenWaiter[];
  /** When the last of the running offers ends, from the moment of the look; `null` without any. */
  #offersEnd: number | null;
  #entries: number;
  #ownEntry: boolean;
  #buried: boolean;
  #given: Given | undefined;
  /** How long the exclusive lease runs from the moment of writing, where this step says so. */
  #restart: number | null = null;
  #changed: boolean;
  readonly #calls: Call[] = [];
  readonly #woken: SeenWaiter[] = [];

  constructor(sql: StepStatements, key: string, grantId: string, sight: Sight) {
    const { lock } = sight;
    this.#sql = sql;
    this.#key = key;
    this.#grantId = grantId;
    this.#sight = sight;
    this.#permits = lock?.permits ?? 1;
    this.#abandoned = lock?.abandoned ?? false;
    this.#raised = BigInt(lock?.raised ?? 0);
    this.#shares = { ...sight.shares };
    this.#waiters = sight.waiters;
    this.#offersEnd = sight.offersEnd;
    this.#entries = sight.entries;
    this.#ownEntry = sight.waiter !== null;
    this.#buried = sight.tombs;
    if (lock?.grant == null) this.#sole = null;
    else this.#sole = { id: lock.grant, rest: lock.rest, delay: lock.delay, ttl: lock.ttl };
    this.#changed = false;
    if (sight.shares.spent > 0) this.#add("dropSpent");
    if (this.#sole !== null && this.#sole.rest + this.#sole.delay <= 0) this.#vacate(true);
    // What refused grant ids is over, and nobody waits: the name is simple again.
    if (lock?.state === 2 && this.#state !== 2) this.#changed = true;
  }

  /** Why the grant id has no lease, as far as the tables tell. */
  get whyGone(): GoneReason {
    const { tomb } = this.#sight;
    if (tomb === "revoked") return "revoked";
    const taken = this.#sole !== null && this.#sole.id !== this.#grantId && this.#sole.rest > 0;
    return taken || tomb === "exchanged" ? "taken" : "expired";
  }

  /** Whether the grant id must not be granted any more. */
  get refused(): boolean {
    return this.#sight.tomb !== null;
  }

  /** Whose turn has come by this step. */
  get woken(): readonly SeenWaiter[] {
    return this.#woken;
  }

  get queued(): boolean {
    return this.#ownEntry;
  }

  get ahead(): number {
    return this.#sight.ahead[0];
  }

  get entries(): number {
    return this.#entries;
  }

  /**
   * Starts the ttl of a grant that stands again, and tells what it was told before; `undefined` when there is none. Never
   * ends it sooner: this may be a late packet, and the holder have renewed for longer since.
   */
  restart(ask: Ask): Granted | undefined {
    const { lock, share } = this.#sight;
    if (lock !== null && this.#isSole(ask.grantId)) {
      if (this.#sole !== null && ask.ttlMs > this.#sole.rest) {
        Object.assign(this.#sole, { ttl: ask.ttlMs, delay: ask.lockDelayMs });
        this.#restart = ask.ttlMs;
        this.#changed = true;
      }
      const tokens = { first: BigInt(lock.first), count: lock.count };
      return granted(ask, tokens, lock.abandoned, big(lock.previous));
    }
    if (share === null || share.rest <= 0) return undefined;
    if (ask.ttlMs > share.rest) this.#add("renewShare", ask.grantId, ms(ask.ttlMs), delay(ask));
    const tokens = share.first === null ? null : { first: BigInt(share.first), count: 1 };
    return granted(ask, tokens, share.abandoned, big(share.previous));
  }

  /** The count that users of a semaphore rely on when it is not `permits`; `null` when all agree. */
  disagrees(permits: number): number | null {
    const stored = this.#shares.permits > 0 ? this.#permits : this.#sight.semaphore;
    if (stored !== null && stored !== permits) return stored;
    if (this.#permits !== permits) this.#changed = true;
    this.#permits = permits;
    return null;
  }

  /** Whether an ask at its place gets in. */
  hasRoom(mode: Mode): boolean {
    const [ahead, barring] = this.#sight.ahead;
    if (mode === "shared") return this.#slots(mode) > 0 && barring === 0;
    return ahead < this.#slots(mode);
  }

  /** Gives the name to an ask that `hasRoom`. What it got is known once it is written: see `granted`. */
  grant(ask: Ask): void {
    this.leave();
    const first = this.#nextToken(ask.above);
    if (first + BigInt(ask.tokens) - 1n > MAX_TOKEN)
      throw new DriverError("config", "not-applied", "The fencing tokens of this name are used up");
    this.#given = { ask, takenOver: this.#abandoned };
    if (ask.mode === "exclusive") {
      const { grantId: id, ttlMs: ttl } = ask;
      this.#sole = { id, rest: ttl, delay: ask.lockDelayMs, ttl };
    } else {
      this.#count(ask.mode, 1, ask.ttlMs + ask.lockDelayMs);
    }
  }

  /** Gives the grant of `from`, which this step is about, to the ask; false when it does not stand in that mode. */
  exchange(ask: Ask): boolean {
    const { share } = this.#sight;
    if (ask.mode === "exclusive" && this.#isSole(this.#grantId)) this.#vacate(false);
    else if (share?.mode === ask.mode && share.rest > 0) this.#dropShare();
    else return false;
    this.grant(ask);
    return true;
  }

  /** Adds an entry at the end of the queue. */
  join(ask: Ask, channel: string, keepMs: number): void {
    const { grantId, mode, permits, holder, ttlMs } = ask;
    this.#add("join", grantId, channel, mode, String(permits), holder, ms(ttlMs), ms(keepMs));
    this.#entries += 1;
    this.#ownEntry = true;
    this.#changed = true;
    const seen = { seq: Infinity, grant: grantId, mode, ttl: ttlMs, channel, offered: false };
    this.#waiters = [...this.#waiters, seen];
  }

  /** Forgets entries that have been dead for long. */
  forgetDead(): void {
    this.#add("forgetDead");
  }

  heard(keepMs: number): void {
    this.#add("heard", this.#grantId, ms(keepMs));
  }

  /** Takes the grant id's entry out of the queue. */
  leave(): boolean {
    if (!this.#ownEntry) return false;
    this.#add("leave", this.#grantId);
    this.#ownEntry = false;
    this.#entries -= 1;
    this.#waiters = this.#waiters.filter(({ grant }) => grant !== this.#grantId);
    this.#changed = true;
    return true;
  }

  /** Ends the grant, by its own holder. */
  release(raiseTo: bigint | undefined): boolean {
    const { share } = this.#sight;
    if (this.#isSole(this.#grantId)) this.#vacate(false);
    else if (share !== null && share.rest > 0) this.#dropShare();
    else return false;
    if (raiseTo !== undefined && raiseTo > this.#raised)
      this.#raised = raiseTo < MAX_TOKEN ? raiseTo : MAX_TOKEN;
    return true;
  }

  /** Ends the grant against its holder's will: at once, or so that its lock-delay runs from now. Answers its ttl. */
  revoke(atOnce: boolean): number | null {
    const sole = this.#sole;
    if (sole?.id === this.#grantId) {
      if (sole.rest <= 0 && !atOnce) return null;
      if (atOnce || sole.delay === 0) this.#vacate(true);
      else {
        sole.rest = 0;
        this.#restart = 0;
      }
      this.#changed = true;
      return sole.ttl;
    }
    const { share } = this.#sight;
    if (share === null || (share.rest <= 0 && !atOnce)) return null;
    if (atOnce || share.delay === 0) this.#dropShare();
    else this.#add("cutShare", this.#grantId);
    return share.ttl;
  }

  /** Refuses a grant id from now on. */
  bury(grantId: string, kind: "released" | "revoked" | "exchanged", forMs: number): void {
    this.#add("bury", grantId, kind, ms(forMs));
    this.#buried = true;
    this.#changed = true;
  }

  /**
   * Why an ask does not get in, who is in its way, and when to ask again: after the offers that run, which may be to the
   * dead, since an ask is what passes a lapsed one on; else when there is room, and each one ahead has let an offer pass.
   */
  obstacle(ask: Ask): Pick<Busy, "blockedBy" | "holder" | "askAgainMs"> {
    const sole = this.#sole;
    const before = Math.min(this.ahead, MAX_RANK);
    const askAgain = (at: number): number =>
      Math.max(1, at + before * Math.min(ask.ttlMs, OFFER_MS));
    if (sole !== null) {
      const holder = this.#sight.lock?.holder ?? null;
      const askAgainMs = askAgain(sole.rest + sole.delay);
      return { blockedBy: sole.rest > 0 ? "lease" : "lock-delay", holder, askAgainMs };
    }
    const { permits, soonest, latest, living, holder } = this.#shares;
    if (this.#slots(ask.mode) > 0) {
      // Nobody has an offer where a reader waits for a writer, and that one for the last reader.
      const askAgainMs =
        this.#offersEnd === null
          ? askAgain(latest ?? 0)
          : Math.max(1, this.#offersEnd + Math.max(0, before - 1) * NEXT_ASK_MS);
      return { blockedBy: "queue", holder: this.#sight.head, askAgainMs };
    }
    const free = (ask.mode === "permits" && permits > 0 ? soonest : latest) ?? 0;
    const blockedBy = (living ?? 0) > 0 ? "lease" : "lock-delay";
    return { blockedBy, holder, askAgainMs: askAgain(free) };
  }

  /** Offers what is free to the head of the queue and wakes it, except who is asking. The last step before `writes`. */
  makeOffers(asking?: string): void {
    for (const seq of this.#sight.late) this.#add("miss", String(seq));
    const [head] = this.#waiters;
    if (head === undefined) return;
    const slots = this.#slots(head.mode);
    if (slots === 0) {
      if (this.#waiters.some(({ offered }) => offered)) this.#add("withdraw");
      this.#offersEnd = null;
      return;
    }
    const others = this.#waiters.findIndex(({ mode }) => mode !== head.mode);
    const turn =
      head.mode === "shared"
        ? this.#waiters.slice(0, others < 0 ? undefined : others)
        : this.#waiters.slice(0, slots);
    for (const waiter of turn) {
      // Who asks right now is told by the answer, and has no place to be found by when it has just joined.
      if (waiter.offered || waiter.seq === Infinity) continue;
      const offerMs = Math.min(waiter.ttl, OFFER_MS);
      this.#add("offer", String(waiter.seq), ms(offerMs));
      this.#offersEnd = Math.max(this.#offersEnd ?? 0, offerMs);
      if (waiter.grant !== asking) this.#wake(waiter);
    }
  }

  /** What the transaction must write, in this order. */
  writes(): readonly Call[] {
    const given = this.#given;
    const calls = [...this.#calls];
    const state = String(this.#state);
    if (given?.ask.mode === "exclusive") {
      if (this.#raised !== BigInt(this.#sight.lock?.raised ?? 0)) calls.push(this.#putLock());
      const { grantId, holder, ttlMs, tokens } = given.ask;
      const terms = [grantId, holder, ms(ttlMs), delay(given.ask), String(tokens)];
      const args = [this.#key, ...terms, aboveOf(given.ask), state, String(this.#abandoned)];
      calls.push({ statement: this.#sql.putGrant, args });
    } else if (this.#changed || given !== undefined) calls.push(this.#putLock());
    if (given !== undefined && given.ask.mode !== "exclusive") {
      const { grantId, mode, holder, ttlMs } = given.ask;
      const terms = [grantId, mode, holder, ms(ttlMs), delay(given.ask)];
      const args = [this.#key, ...terms, aboveOf(given.ask), String(given.takenOver)];
      calls.push({ statement: this.#sql.putShare, args });
    }
    return calls;
  }

  /** What the grant of this step got: `written` is the row that its statement answered. */
  granted(written: string): Granted {
    const given = this.#given;
    if (given === undefined) throw new Error("nothing was granted");
    const [first = "", previous = ""] = written.split("|");
    const { ask } = given;
    const count = ask.mode === "exclusive" ? ask.tokens : 1;
    const tokens = ask.mode === "permits" ? null : { first: BigInt(first), count };
    return granted(ask, tokens, given.takenOver, previous === "" ? null : BigInt(previous));
  }

  #putLock(): Call {
    const sole = this.#sole;
    const { lock } = this.#sight;
    const same = sole !== null && sole.id === lock?.grant;
    const args = [
      this.#key,
      String(this.#state),
      String(this.#permits),
      same ? sole.id : null,
      same ? lock.holder : null,
      ms(same ? sole.ttl : (lock?.ttl ?? 0)),
      ms(same ? sole.delay : (lock?.delay ?? 0)),
      this.#restart === null ? "" : ms(this.#restart),
      String(this.#raised),
      String(this.#abandoned),
    ];
    return { statement: this.#sql.putLock, args };
  }

  #wake(waiter: SeenWaiter): void {
    const { wake } = this.#sql;
    const { channel, grant } = waiter;
    if (wake !== undefined) this.#calls.push({ statement: wake, args: [channel, grant] });
    this.#woken.push(waiter);
  }

  #isSole(grantId: string): boolean {
    return this.#sole !== null && this.#sole.id === grantId && this.#sole.rest > 0;
  }

  get #state(): 0 | 1 | 2 {
    const { shared, permits } = this.#shares;
    if (this.#entries > 0 || shared + permits > 0 || this.#buried) return 2;
    return this.#sole === null ? 0 : 1;
  }

  /** How many asks of this mode the holders leave room for. A holder's lock-delay keeps its place. */
  #slots(mode: Mode): number {
    const { shared, permits } = this.#shares;
    if (this.#sole !== null) return 0;
    if (mode === "permits") return shared > 0 ? 0 : Math.max(0, this.#permits - permits);
    if (mode === "shared") return permits > 0 ? 0 : Number.MAX_SAFE_INTEGER;
    return shared + permits > 0 ? 0 : 1;
  }

  #nextToken(above: bigint | undefined): bigint {
    const { lock } = this.#sight;
    const next = BigInt(lock?.first ?? 0) + BigInt(lock?.count ?? 1);
    return [this.#raised + 1n, (above ?? 0n) + 1n].reduce((a, b) => (a > b ? a : b), next);
  }

  #vacate(abandoned: boolean): void {
    this.#sole = null;
    this.#abandoned = abandoned;
    this.#changed = true;
  }

  #dropShare(): void {
    const mode = this.#sight.share?.mode;
    this.#add("dropShare", this.#grantId);
    if (mode !== undefined && mode !== "exclusive") this.#count(mode, -1, 0);
    this.#changed = true;
  }

  #count(mode: "shared" | "permits", by: number, end: number): void {
    this.#shares[mode] += by;
    if (by > 0) this.#shares.latest = Math.max(this.#shares.latest ?? 0, end);
  }

  #add(name: KeyedStatement, ...args: readonly (string | null)[]): void {
    this.#calls.push({ statement: this.#sql[name], args: [this.#key, ...args] });
  }
}

/** The server counts whole milliseconds: rounded up, since the holder counts what it asked for. */
export function ms(duration: number): string {
  return String(Math.ceil(duration));
}

function delay(ask: Ask): string {
  return ms(ask.lockDelayMs);
}

function aboveOf({ above }: Ask): string {
  return String(above ?? 0n);
}

function big(text: string | null): bigint | null {
  return text === null ? null : BigInt(text);
}

/** The answer for a grant that stands. */
export function granted(
  ask: Ask,
  tokens: Granted["tokens"],
  takenOver: boolean,
  previousToken: bigint | null,
): Granted {
  const ttlMs = Math.ceil(ask.ttlMs);
  return { kind: "granted", tokens, takenOver, previousToken, ttlMs };
}
