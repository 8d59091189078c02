/** Whose transaction it is: locks of a session outlive it. */
export interface Owner {
  readonly pid: number;
}

/** Locks on numbers that belong to a session, which may take one again and again. They are in memory only. */
export class AdvisoryLocks {
  readonly #held = new Map<string, { readonly owner: Owner; count: number }>();

  take(key: string, owner: Owner): boolean {
    const held = this.#held.get(key);
    if (held !== undefined && held.owner !== owner) return false;
    if (held === undefined) this.#held.set(key, { owner, count: 1 });
    else held.count += 1;
    return true;
  }

  /** False, with a warning that nobody reads, where this session does not have it. */
  give(key: string, owner: Owner): boolean {
    const held = this.#held.get(key);
    if (held?.owner !== owner) return false;
    held.count -= 1;
    if (held.count === 0) this.#held.delete(key);
    return true;
  }

  /** The session has ended. */
  drop(owner: Owner): void {
    for (const [key, held] of this.#held) if (held.owner === owner) this.#held.delete(key);
  }

  clear(): void {
    this.#held.clear();
  }
}
