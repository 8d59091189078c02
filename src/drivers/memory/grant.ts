/** One lease in the store. A plain class with one shape: there may be hundreds of thousands. */
export class Grant {
  readonly grantId: string;
  readonly holder: string;
  /** First token of the block; `null` for a permit. */
  readonly first: bigint | null;
  readonly count: number;
  readonly takenOver: boolean;
  readonly previousToken: bigint | null;
  /** Unix milliseconds of the grant. */
  readonly sinceMs: number;
  /** Monotonic: from here on nobody holds it. */
  expiresAt = 0;
  ttlMs = 0;
  lockDelayMs = 0;

  constructor(
    who: { readonly grantId: string; readonly holder: string },
    tokens: { readonly first: bigint | null; readonly count: number },
    past: { readonly takenOver: boolean; readonly previousToken: bigint | null },
    sinceMs: number,
  ) {
    this.grantId = who.grantId;
    this.holder = who.holder;
    this.first = tokens.first;
    this.count = tokens.count;
    this.takenOver = past.takenOver;
    this.previousToken = past.previousToken;
    this.sinceMs = sinceMs;
  }

  /** Until here it keeps others out: a vanished holder's lock-delay counts, a released grant is simply removed. */
  get freeAt(): number {
    return this.expiresAt + this.lockDelayMs;
  }

  get lastToken(): bigint | null {
    return this.first === null ? null : this.first + BigInt(this.count - 1);
  }

  /**
   * The ttl runs again from `now`, but nothing ends earlier for it: a packet that was under way for long, of an acquire or
   * renewal with a shorter ttl, must not cut short what its holder has been promised since.
   */
  restart(now: number, terms: { readonly ttlMs: number; readonly lockDelayMs: number }): void {
    this.expiresAt = Math.max(this.expiresAt, now + terms.ttlMs);
    this.ttlMs = terms.ttlMs;
    this.lockDelayMs = terms.lockDelayMs;
  }
}
