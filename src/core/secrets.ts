import type { Random } from "./random.ts";
import type { GrantIds } from "./tenure.ts";

/** 160 bits. */
const SECRET_BYTES = 20;
/** 162 bits, in the alphabet of base64url: as long as the hash of a secret. */
const ID_CHARS = 27;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** Secrets or ids drawn at a time. */
const DRAWN = 32;

/**
 * Secrets of grants, one character a byte, and their ids. Several are drawn at a time: small draws are dear, and so is a
 * hash that nobody has made for a while.
 */
export class Secrets {
  readonly #random: Random;
  readonly #idOf: (secret: string) => string;
  #drawn: GrantIds[] = [];
  /** Character codes of ids. */
  #codes: number[] = [];

  /** `idOf`: the public hash of a secret. */
  constructor(random: Random, idOf: (secret: string) => string) {
    this.#random = random;
    this.#idOf = idOf;
  }

  next(): GrantIds {
    return this.#drawn.pop() ?? this.#draw();
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
    this.#drawn = [];
    this.#codes = [];
    this.#random.forget?.();
  }

  #draw(): GrantIds {
    const bytes = this.#random.bytes(SECRET_BYTES * DRAWN);
    const secrets = String.fromCharCode.apply(null, bytes as unknown as number[]);
    const idsAt = (n: number): GrantIds => {
      const secret = secrets.slice(n * SECRET_BYTES, (n + 1) * SECRET_BYTES);
      return { secret, grantId: this.#idOf(secret) };
    };
    // In the end the last one comes first.
    for (let n = DRAWN - 1; n > 0; n -= 1) this.#drawn.push(idsAt(n));
    return idsAt(0);
  }
}
