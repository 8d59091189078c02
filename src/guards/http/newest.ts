import { StaleTokenError } from "../../core/errors.ts";
import type { Claim } from "../../core/guard.ts";

/**
 * The newest claim per resource that this process has seen accepted. It spares the store a claim by a grant that has
 * claimed already and by one that came too late; it never lets anybody write, which only a verify inside the handler's
 * transaction does. Forgetting an entry costs one claim at the store, nothing else.
 */
export class Newest {
  readonly #limit: number;
  readonly #claims = new Map<string, Claim>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Whether this very grant has claimed all of these resources.
   * @throws StaleTokenError when a larger token of the same scope, or the same one of another grant, was accepted
   */
  knows(resources: readonly string[], mine: Claim): boolean {
    let known = true;
    for (const resource of resources) {
      const newest = this.#claims.get(resource);
      // Tokens of different scopes do not compare: the store decides.
      if (newest?.scope !== mine.scope || newest.token < mine.token) {
        known = false;
      } else if (newest.token > mine.token || newest.grantId !== mine.grantId) {
        const { token: presented } = mine;
        throw new StaleTokenError({ resource, presented, highest: newest.token, step: "claim" });
      }
    }
    return known;
  }

  /** The store accepted this claim. Two answers may arrive in the wrong order: within a scope the larger token stays. */
  accepted(resources: readonly string[], mine: Claim): void {
    for (const resource of resources) {
      const before = this.#claims.get(resource);
      if (before?.scope === mine.scope && before.token > mine.token) continue;
      // The most recently accepted is the last to be forgotten.
      this.#claims.delete(resource);
      this.#claims.set(resource, mine);
      if (this.#claims.size > this.#limit) this.#forgetOldest();
    }
  }

  /** The store no longer has this claim: the next request of the grant asks it again. */
  refused(resources: readonly string[], mine: Claim): void {
    for (const resource of resources)
      if (this.#claims.get(resource)?.grantId === mine.grantId) this.#claims.delete(resource);
  }

  #forgetOldest(): void {
    for (const oldest of this.#claims.keys()) {
      this.#claims.delete(oldest);
      return;
    }
  }
}
