import type { Random } from "./random.ts";

/** 160 bits. */
const SECRET_BYTES = 20;
/** 162 bits, in the alphabet of base64url: as long as the hash of a secret. */
const ID_CHARS = 27;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** Secrets or ids drawn at a time. */
const DRAWN = 32;

/** Secrets of grants, one character a byte. Several are drawn at a time: small draws are dear. */
export class Secrets {
  readonly #random: Random;
  #drawn = "";
  #used = 0;
  /** Character codes of ids. */
  #codes: number[] = [];

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

  /** A grant id without a secret: for leases that nobody can be handed, so that nobody is ever shown one. */
  nextId(): string {
    if (this.#codes.length === 0)
      for (const byte of this.#random.bytes(ID_CHARS * DRAWN))
        this.#codes.push(ALPHABET.charCodeAt(byte & 63));
    return String.fromCharCode.apply(null, this.#codes.splice(-ID_CHARS));
  }

  /** Forgets what was drawn in advance: a cloned virtual machine must not repeat what its twin drew. */
  forget(): void {
    this.#drawn = "";
    this.#used = 0;
    this.#codes = [];
    this.#random.forget?.();
  }
}
