import type { Granted, GrantRef } from "./driver.ts";
import type { Due } from "./due-queue.ts";
import type { LiveLease } from "./live-lease.ts";
import type { NameQueue } from "./local-queue.ts";
import type { Keepalive } from "./lock-manager.ts";
import type { ReturnProgress } from "./returns.ts";
import type { Terms } from "./terms.ts";
import { marginMs } from "./validity.ts";

/** The two ids of a grant: the secret, which only `export` shows (empty where nothing can be exported), and its public hash. */
export interface GrantIds {
  readonly secret: string;
  readonly grantId: string;
}

/**
 * What the backend knows of this process at one name: one record, and the leases that are handed on inside it. They
 * renew, release and are lost together; at most one of them is live.
 */
export class Tenure implements Due {
  dueAt = -1;
  readonly queue: NameQueue;
  readonly terms: Terms;
  /** Only `export` shows it; empty where leases cannot be handed over. */
  readonly secret: string;
  readonly grantId: string;
  readonly takenOver: boolean;
  readonly previousToken: bigint | null;
  readonly lastToken: bigint | null;
  /** What the grant was made for: another `ttlMs` is one holder's own, and is not handed on. */
  readonly grantedTtlMs: number;
  /** The token of the live lease. */
  token: bigint | null;
  /** The lease that is live now. */
  lease: LiveLease | undefined;
  /** What the backend keeps without a renewal; `renew(ttl)` changes it. */
  ttlMs: number;
  /** Holder's clock: when the record is due to be renewed. */
  renewAt: number;
  /** Holder's clock: until then nobody else can have been granted the name. */
  deadline: number;
  /** Holder's clock: a record of `once` must stay until then. 0: it need not. */
  keepUntil = 0;
  /** The renewal under way. */
  renewing: Promise<void> | undefined;
  /** Renewals that failed in a row; at least 1 while the lease is in doubt. */
  failures = 0;
  /** With `keepalive: "progress"`: something was reported since the last renewal. */
  progressed = true;
  handOffs = 0;
  /** Holder's clock of the first hand-off. */
  handedOffAt = 0;
  /** An ask of this grant id may still be on its way: its release leaves a tombstone. */
  readonly late: boolean;
  /** What is known of its release, so that a second one knows of the first. */
  returning: ReturnProgress | undefined;
  /** Renewal stopped for good: released, exported, lost, or past its longest hold. */
  over = false;
  /** The smallest ttl of a request that may still arrive, and would then set the expiry from its arrival on. 0: none. */
  #leastMs = 0;

  constructor(
    queue: NameQueue,
    terms: Terms,
    grant: {
      readonly ids: GrantIds;
      readonly granted: Granted;
      readonly sentAt: number;
      readonly late: boolean;
    },
  ) {
    const { granted, sentAt } = grant;
    this.queue = queue;
    this.terms = terms;
    this.secret = grant.ids.secret;
    this.grantId = grant.ids.grantId;
    this.late = grant.late;
    this.takenOver = granted.takenOver;
    this.previousToken = granted.previousToken;
    this.token = granted.tokens?.first ?? null;
    const count = granted.tokens?.count ?? 1;
    // The usual lease has one token, and is spared a second number.
    this.lastToken =
      this.token === null || count === 1 ? this.token : this.token + BigInt(count - 1);
    // The server may round a ttl up, ours is the asked one; only a store's maximum makes it shorter.
    this.ttlMs = Math.min(terms.ttlMs, granted.ttlMs);
    this.grantedTtlMs = this.ttlMs;
    if (this.late) this.mayArrive(this.ttlMs);
    this.deadline = sentAt + this.ttlMs - marginMs(this.ttlMs, terms.marginRatio);
    this.renewAt = sentAt + this.ttlMs / 3;
  }

  /** The most that a renewal can leave to act in. */
  get validityMs(): number {
    const believedMs = this.#believedMs(this.ttlMs);
    return believedMs - marginMs(believedMs, this.terms.marginRatio);
  }

  get keepalive(): Keepalive {
    return this.terms.keepalive;
  }

  /** The ttl that a renewal sent now asks for. */
  renewalTtlMs(now: number): number {
    return Math.max(this.ttlMs, this.keepUntil - now);
  }

  /** A record of `once`: renewed as if its ttl were `ttlMs`, and never for less than until `keepUntil`. */
  keepRecord(ttlMs: number, keepUntil: number): void {
    this.renewAt -= (this.ttlMs - ttlMs) / 3;
    this.ttlMs = ttlMs;
    this.keepUntil = keepUntil;
  }

  /** How this record is named in a renewal or a release. */
  ref(ttlMs: number = this.ttlMs): GrantRef {
    return {
      name: this.queue.name,
      mode: this.terms.mode,
      grantId: this.grantId,
      ttlMs,
      lockDelayMs: this.terms.lockDelayMs,
    };
  }

  /** A request that sets the expiry to `ttlMs` leaves now: should it arrive alone, the lease ends no later than this. */
  sending(sentAt: number, ttlMs: number): void {
    this.deadline = Math.min(
      this.deadline,
      sentAt + ttlMs - marginMs(ttlMs, this.terms.marginRatio),
    );
  }

  /**
   * A request for `ttlMs` has an unknown outcome and may be late. Should it arrive after one for longer, the store
   * keeps the lease for `ttlMs` only: from now on nothing longer is believed, and renewals are as frequent as that needs.
   */
  mayArrive(ttlMs: number): void {
    this.#leastMs = this.#believedMs(ttlMs);
  }

  /** The request of `sentAt` was applied. */
  renewed(sentAt: number, ttlMs: number): void {
    const believedMs = this.#believedMs(ttlMs);
    this.deadline = sentAt + believedMs - marginMs(believedMs, this.terms.marginRatio);
    // A store's maximum may be below what was asked for.
    this.renewAt = sentAt + Math.min(this.ttlMs, believedMs) / 3;
    this.failures = 0;
  }

  #believedMs(ttlMs: number): number {
    return this.#leastMs > 0 ? Math.min(ttlMs, this.#leastMs) : ttlMs;
  }
}
