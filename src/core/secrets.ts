import type { Random } from "./random.ts";

/** 160 bits. */
const SECRET_BYTES = 20;
/** Secrets drawn at a time. */
const DRAWN = 32;

/** Secrets of grants, one character a byte. Several are drawn at a time: small draws are dear. */
export class Secrets {
  readonly #random: Random;
  #drawn = "";
  #used = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  next(): string {
    if (this.#used === this.#drawn.length) {
      const bytes = this.#random.bytes(SECRET_BYTES * DRAWN);
      this.#drawn = String.fromCharCode.apply(null, bytes as unknown as number[]);
      this.#used = 0;
    }
    this.#used += SECRET_BYTES;
    return this.#drawn.slice(this.#used - SECRET_BYTES, this.#used);
  }

  /** Forgets what was drawn in advance: a cloned virtual machine must not repeat what its twin drew. */
  forget(): void {
    this.#drawn = "";
    this.#used = 0;
    this.#random.forget?.();
  }
}
