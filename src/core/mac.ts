/** Hashes and authentication codes, lent to core, which imports no module. All synchronous. */
export interface Mac {
  /** SHA-256 of the UTF-8 text, as base64url without padding (43 characters). */
  sha256(text: string): string;
  /** HMAC-SHA-256 of the UTF-8 text, as base64url without padding. */
  hmac(secret: string | Uint8Array, text: string): string;
  /** Compares in time that depends on the length only. */
  equal(a: string, b: string): boolean;
}
