/** A lease as a scenario holds it, whoever gave it. */
export interface Held {
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope: string;
  /** Asks the lease itself, and records the answer. */
  believes(): boolean;
  /** Renews by hand, for `ttlMs`. Never rejects. */
  renew?(ttlMs: number): Promise<void>;
  release(): Promise<void>;
}

/** How a lease is asked for in a scenario; times in milliseconds. */
export interface LockTerms {
  readonly ttlMs: number;
  readonly waitMs?: number;
  readonly lockDelayMs?: number;
  /** The longest hold; naive locks know no such thing. */
  readonly maxHoldMs?: number;
  /** Renewed by itself. */
  readonly renews?: boolean;
}

/** A lock client of a scenario: the production manager, or a naive one. */
export interface LockClient {
  /** `null` when it came to nothing. */
  acquire(lock: string, terms: LockTerms): Promise<Held | null>;
}
