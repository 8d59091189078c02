/** Something that waits for a notice from its driver. */
interface Wakeable {
  wake(): void;
}

/**
 * Waiting tickets by grant id. The usual one, which asks once and is answered, has a place of its own: a Map that is
 * emptied again and again makes a new table each time.
 */
export class Wakes {
  #grantId = "";
  #ticket: Wakeable | undefined;
  readonly #others = new Map<string, Wakeable>();

  get(grantId: string): Wakeable | undefined {
    return grantId === this.#grantId ? this.#ticket : this.#others.get(grantId);
  }

  set(grantId: string, ticket: Wakeable): void {
    if (this.#ticket === undefined) [this.#grantId, this.#ticket] = [grantId, ticket];
    else this.#others.set(grantId, ticket);
  }

  delete(grantId: string): void {
    if (grantId === this.#grantId) [this.#grantId, this.#ticket] = ["", undefined];
    else this.#others.delete(grantId);
  }
}
